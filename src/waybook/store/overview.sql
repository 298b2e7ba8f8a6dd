-- name: overview_totals
-- Return the numbers of open plans and runs and of those that ended lately, each counted up to a
-- limit and including those in trouble, and the number of runs that await feedback.
select (select count(*)
          from ((select p.status from plan p
                  where p.org_id = :org and p.status = 'executing' limit %(counted)s)
                 union all
                (select p.status from plan p
                  where p.org_id = :org and p.status = 'planning' limit %(counted)s)
                limit %(counted)s) p) as open_plans,
       (select count(*)
          from (select
                  from run r
                 where r.org_id = :org and r.completed_at is null and r.canceled_at is null
                 limit %(counted)s) r) as open_runs,
       (select count(*)
          from (select
                  from run r
                 where r.org_id = :org and r.awaiting_since is not null
                 limit %(counted)s) r) as awaiting_runs,
       (select count(*)
          from (select
                  from plan p
                 where p.org_id = :org and p.completed_at >= :last_look
                 order by p.completed_at desc
                 limit %(counted)s) p) as finished_plans,
       (select count(*)
          from (select
                  from :runs_ended_since
                 limit %(counted)s) r) as finished_runs,
       -- Ordered, so that the primary keys are used: another index may begin with another column,
       -- and would be read completely for an org without rows.
       coalesce((select true from plan p where p.org_id = :org order by p.id limit 1),
                (select true from run r where r.org_id = :org order by r.id limit 1),
                false) as has_work,
       :last_look as since, app_now() as now;

-- name: work_in_trouble
-- Return open plans that are stalled or have a failed step, plans that failed lately, and open runs
-- with jobs that failed permanently, latest activity first. A plan has its failed steps and, if it is
-- stalled, the step that has been inactive longest; a run has its stages with failed jobs, each with
-- the job that failed last. Each row also has the number of all such plans and runs, of the plans
-- that agents can still work on, of the plans that ended since the reader's last look, and of the
-- runs.
select w.kind, w.id::text, w.name, w.status, w.revision, w.updated_at, app_now() as now,
       w.fail_reason,
       case when w.kind = 'plan'
            then (select json_agg(json_build_array(s.id, s.step_order, :title_of_step, s.held_by,
                                                   s.fail_reason)
                                  order by s.step_order)
                    from plan_step s
                   where s.org_id = :org
                     and s.plan_id = w.id and s.fail_reason is not null and s.status = 'failed')
       end as failed_steps,
       case when w.status = 'stalled'
            then (select json_build_array(s.id, s.step_order, :title_of_step, s.held_by,
                                          s.fail_reason)
                    from plan_step s
                   where s.org_id = :org and s.plan_id = w.id and s.status = 'in_progress'
                   order by greatest(s.in_progress_since, s.last_seen_at), s.step_order
                   limit 1)
       end as stalled_step,
       case when w.status = 'stalled'
            then (select min(greatest(s.in_progress_since, s.last_seen_at))
                    from plan_step s
                   where s.org_id = :org and s.plan_id = w.id and s.status = 'in_progress')
       end as inactive_since,
       case when w.status = 'failed'
            then (select :last_change_of_plan from (values (w.id)) as p (id))
       end as last_change,
       case when w.kind = 'run'
            then (select json_agg(json_build_array(j.stage_slug, j.step_key, j.model, j.attempt,
                                                   j.error, j.held_by, j.completed_at,
                                                   j.out_of_retries, j.jobs)
                                  order by j.stage_slug)
                    from (select distinct on (j.stage_slug)
                                 j.stage_slug, j.step_key, j.model, j.attempt,
                                 left(coalesce(j.error, ''), %(wide)s) as error, j.held_by,
                                 j.completed_at, j.status = 'retry_loop_failed' as out_of_retries,
                                 count(*) over (partition by j.stage_slug) as jobs
                            from job j
                           where j.org_id = :org and j.run_id = w.id
                             and j.status in ('failed', 'retry_loop_failed')
                             and j.job_type <> 'RENDER'
                           order by j.stage_slug, j.completed_at desc, j.id) j)
       end as failures,
       w.in_trouble, w.open_plans, w.finished_plans, w.runs
  from (select w.*, count(*) over () as in_trouble,
               count(*) filter (where w.status in ('planning', 'executing')) over () as open_plans,
               count(*) filter (where w.completed_at >= :last_look) over () as finished_plans,
               count(*) filter (where w.kind = 'run') over () as runs
          from (select 'plan' as kind, p.id, p.name, p.status, p.revision, p.updated_at,
                       p.fail_reason, p.completed_at
                  from plan p
                 where p.org_id = :org
                   and p.completed_at is null
                   and p.id = any (array((select t.id
                                            from plan t
                                           where t.org_id = :org and t.status = 'stalled'
                                           order by t.id desc
                                           limit %(newest)s)
                                          union all
                                         (select s.plan_id
                                            from plan_step s
                                           where s.org_id = :org
                                             and s.fail_reason is not null
                                             and s.status = 'failed'
                                           order by s.plan_id desc
                                           limit %(newest)s)))
                 union all
                select 'plan', p.id, p.name, p.status, p.revision, p.updated_at, p.fail_reason,
                       p.completed_at
                  from (select p.id, p.name, p.status, p.revision, p.updated_at, p.fail_reason,
                               p.completed_at
                          from plan p
                         where p.org_id = :org
                           and p.status = 'failed'
                           and p.completed_at >= (select least(:last_look,
                                                               app_now() - interval '1 day'))
                         order by p.completed_at desc
                         limit %(newest)s) p
                 where not :plan_is_canceled
                 union all
                select 'run', r.id, r.name, null, null, r.updated_at, null, null
                  from run r
                 where r.org_id = :org
                   and r.completed_at is null
                   and r.canceled_at is null
                   and r.id = any (array(select s.run_id
                                           from stage_step s
                                          where s.org_id = :org
                                            and s.failed > 0
                                            and s.closed_at is null
                                          order by s.run_id desc
                                          limit %(newest)s))) w
         order by w.updated_at desc, w.id desc
         limit %(most)s) w
 order by w.updated_at desc, w.id desc;

-- name: work_running
-- Return open plans and runs on which agents can work and that have no failed steps, latest activity
-- first, among a limited number of those with the latest activity. Each has the holders of its steps
-- or jobs; a plan has the number of its steps in each status and its current step, and a run has its
-- stages.
select w.kind, w.id::text, w.name, w.status, w.dag_slug, w.dag_version, w.updated_at,
       c.counts,
       (select json_build_array(s.step_order, :title_of_step)
          from plan_step s
         where s.org_id = :org and s.plan_id = w.id and s.step_order = c.current_order)
       as current_step,
       case when w.kind = 'plan' then c.holders
            else (select json_agg(distinct j.held_by)
                    from job j
                   where j.org_id = :org and j.run_id = w.id
                     and j.status = 'processing' and j.held_by is not null)
       end as holders,
       case when w.kind = 'run'
            then (select :stages_of_run from (values (w.id)) as r (id))
       end as stages
  from (select w.*
          from ((select 'plan' as kind, p.id, p.name, p.status, '' as dag_slug,
                        0 as dag_version, p.updated_at
                   from (select p.id, p.name, p.status, p.updated_at, p.active_minute
                           from plan p
                          where p.org_id = :org and p.completed_at is null
                          order by p.active_minute desc, p.updated_at desc, p.id desc
                          limit %(newest)s) p
                  where p.status in ('planning', 'executing')
                    and not exists (select
                                      from plan_step s
                                     where s.org_id = :org
                                       and s.plan_id = p.id
                                       and s.fail_reason is not null
                                       and s.status = 'failed'
                                    offset 0)
                  order by p.active_minute desc, p.updated_at desc, p.id desc
                  limit %(most)s)
                 union all
                (select 'run', r.id, r.name, null, r.dag_slug, r.dag_version, r.updated_at
                   from (select r.id, r.name, r.dag_slug, r.dag_version, r.updated_at,
                                r.awaiting_since, r.active_minute
                           from run r
                          where r.org_id = :org
                            and r.completed_at is null
                            and r.canceled_at is null
                          order by r.active_minute desc, r.updated_at desc, r.id desc
                          limit %(newest)s) r
                  where r.awaiting_since is null
                    and not exists (select
                                      from stage_step s
                                     where s.org_id = :org
                                       and s.run_id = r.id
                                       and s.failed > 0
                                       and s.closed_at is null
                                    offset 0)
                  order by r.active_minute desc, r.updated_at desc, r.id desc
                  limit %(most)s)) w
         order by w.updated_at desc, w.id desc
         limit %(most)s) w
 cross join lateral (
       select :status_counts as counts,
              coalesce(min(s.step_order) filter (where s.status = 'awaiting_input'),
                       min(s.step_order) filter (where s.status = 'in_progress'))
              as current_order,
              json_agg(distinct s.held_by)
                filter (where s.status = 'in_progress' and s.held_by is not null) as holders
         from plan_step s
        where s.org_id = :org and s.plan_id = w.id) c
 order by w.updated_at desc, w.id desc;

-- name: work_finished
-- Return plans and runs that were completed or canceled since a given time, latest first, among a
-- limited number of those that ended.
select w.kind, w.id::text, w.name, w.canceled, w.reason,
       case when w.kind = 'run' then w.canceled_by
            when w.canceled
            then (select :last_change_of_plan from (values (w.id)) as p (id))
       end as canceled_by,
       case when w.kind = 'plan'
            then (select b.created_at from plan_brief b where b.org_id = :org and b.plan_id = w.id)
            else (select b.created_at from run_brief b where b.org_id = :org and b.run_id = w.id)
       end as created_at,
       w.ended_at,
       case when w.kind = 'plan'
            then (select :status_counts
                    from plan_step s
                   where s.org_id = :org and s.plan_id = w.id)
       end as counts
  from (select w.*
          from ((select 'plan' as kind, p.id, p.name, p.status = 'failed' as canceled,
                        p.fail_reason as reason, null as canceled_by, p.completed_at as ended_at
                   from (select p.id, p.name, p.status, p.fail_reason, p.completed_at
                           from plan p
                          where p.org_id = :org and p.completed_at >= :last_look
                          order by p.completed_at desc, p.id desc
                          limit %(newest)s) p
                  where p.status = 'completed' or :plan_is_canceled
                  order by p.completed_at desc, p.id desc
                  limit %(most)s)
                 union all
                (select 'run', r.id, r.name, r.completed_at is null, r.cancel_reason,
                        r.canceled_by, r.ended_at
                   from :runs_ended_since
                  order by r.ended_at desc, r.id desc
                  limit %(most)s)) w
         order by w.ended_at desc, w.id desc
         limit %(most)s) w
 order by w.ended_at desc, w.id desc;
