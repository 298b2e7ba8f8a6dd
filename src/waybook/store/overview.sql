-- name: work_waiting
-- Return open reviews and runs that await feedback. Overdue reviews come first, then the longest
-- waiting.
select w.kind, w.id::text, w.name, w.since, w.is_overdue, left(w.summary, %(long)s) as summary,
       case when w.kind = 'review'
            then (select s.step_order from plan_step s where s.org_id = :org and s.id = w.step_id)
       end as step_order,
       w.dag_slug, w.dag_version,
       case when w.kind = 'run'
            then array(select g.stage_slug
                         from stage_run g
                        where g.org_id = :org and g.run_id = w.id and g.feedback is null)
       end as stages
  from (select w.*
          from ((select 'review' as kind, r.id, p.name, r.requested_at as since,
                        coalesce(r.requested_at < app_now() - make_interval(secs => %(patience)s),
                                 false) as is_overdue,
                        r.summary, r.step_id, '' as dag_slug, 0 as dag_version
                   from review r
                   join plan p on p.org_id = :org and p.id = r.plan_id
                  where r.org_id = :org
                    and r.decision is null
                    and p.completed_at is null
                  order by r.requested_at, r.id
                  limit %(most)s)
                 union all
                (select 'run', r.id, r.name, r.awaiting_since, false, null, null, r.dag_slug,
                        r.dag_version
                   from run r
                  where r.org_id = :org and r.awaiting_since is not null
                  order by r.awaiting_since, r.id
                  limit %(most)s)) w
         order by w.is_overdue desc, w.since, w.kind, w.id
         limit %(most)s) w
 order by w.is_overdue desc, w.since, w.kind, w.id;

-- name: work_in_trouble
-- Return open plans that are stalled or have a failed step, plans that failed lately, and open runs
-- with permanently failed jobs. Only a limited number of the newest of each kind is read. A plan
-- has its failed steps and, if it is stalled, the step that has been inactive longest. A run has
-- its stages with failed jobs, each with the job that failed last. Each row also has one letter of
-- `TroubleKind` for each plan and run found, and says whether work on it goes on: an agent holds a
-- step, or jobs are not finished. With `offset 0`, each plan and run is looked up by its id.
select w.kind, w.id::text, w.name, w.status, w.revision, w.updated_at,
       left(w.fail_reason, %(wide)s) as fail_reason,
       case when w.kind = 'plan'
            then (select json_agg(json_build_array(s.inactive_since, s.id, s.step_order,
                                                   :title_of_step,
                                                   array[s.held_by, s.held_session],
                                                   left(s.fail_reason, %(wide)s))
                                  order by s.step_order)
                    from ((select null::timestamptz as inactive_since, s.id, s.step_order, s.title,
                                  s.held_by, s.held_session, s.fail_reason
                             from plan_step s
                            where s.org_id = :org
                              and s.plan_id = w.id
                              and s.fail_reason is not null
                              and s.status = 'failed')
                           union all
                          (select greatest(s.in_progress_since, s.last_seen_at), s.id,
                                  s.step_order, s.title, s.held_by, s.held_session,
                                  s.fail_reason
                             from plan_step s
                            where s.org_id = :org
                              and s.plan_id = w.id
                              and w.status = 'stalled'
                              and s.status = 'in_progress'
                            order by greatest(s.in_progress_since, s.last_seen_at), s.step_order
                            limit 1)) s)
       end as steps,
       case when w.status = 'failed'
            then (select :last_change_of_plan from (values (w.id)) as p (id))
       end as last_change,
       case when w.kind = 'run'
            then (select json_agg(json_build_array(j.stage_slug, j.step_key, j.model, j.attempt,
                                                   j.error, array[j.held_by, j.held_session],
                                                   j.completed_at,
                                                   j.out_of_retries, j.jobs)
                                  order by j.stage_slug)
                    from (select distinct on (j.stage_slug)
                                 j.stage_slug, j.step_key, j.model, j.attempt,
                                 left(coalesce(j.error, ''), %(wide)s) as error, j.held_by,
                                 j.held_session, j.completed_at, j.status = 'retry_loop_failed' as out_of_retries,
                                 count(*) over (partition by j.stage_slug) as jobs
                            from job j
                           where j.org_id = :org and j.run_id = w.id
                             and j.status in ('failed', 'retry_loop_failed')
                             and j.job_type <> 'RENDER'
                           order by j.stage_slug, j.completed_at desc, j.id) j)
       end as failures,
       case when w.kind = 'plan' then (select :plan_is_held from (values (w.id)) as p (id))
            else exists (select from stage_step s
                          where s.org_id = :org and s.run_id = w.id and :jobs_go_on)
       end as goes_on,
       w.kinds
  from (select w.*, string_agg(w.initial, '') over () as kinds
          from ((select 'plan' as kind, 's' as initial, p.id, p.name, p.status, p.revision,
                        p.updated_at, p.fail_reason
                   from plan p
                  where p.org_id = :org and p.status = 'stalled'
                  order by p.id desc
                  limit %(newest)s)
                 union all
                (select distinct on (s.plan_id) 'plan', 'o', p.id, p.name, p.status, p.revision,
                        p.updated_at, p.fail_reason
                   from (select s.plan_id
                           from plan_step s
                          where s.org_id = :org
                            and s.fail_reason is not null
                            and s.status = 'failed'
                          order by s.plan_id desc
                          limit %(walked)s) s
                  cross join lateral (select p.id, p.name, p.status, p.revision, p.updated_at,
                                             p.fail_reason
                                        from plan p
                                       where p.org_id = :org
                                         and p.id = s.plan_id
                                         and p.completed_at is null
                                         and p.status <> 'stalled'
                                      offset 0) p
                  order by s.plan_id desc
                  limit %(newest)s)
                 union all
                select 'plan',
                       case when p.completed_at >= (select :last_look) then 'f' else 'e' end,
                       p.id, p.name, p.status, p.revision, p.updated_at, p.fail_reason
                  from (select p.id, p.name, p.status, p.revision, p.updated_at, p.fail_reason,
                               p.canceled, p.completed_at
                          from plan p
                         where p.org_id = :org
                           and p.status = 'failed'
                           and p.completed_at >= (select least(:last_look,
                                                               app_now() - interval '1 day'))
                         order by p.completed_at desc
                         limit %(newest)s) p
                 where p.canceled is null
                 union all
                (select distinct on (s.run_id) 'run', 'r', r.id, r.name, null, null, r.updated_at,
                        null
                   from (select s.run_id
                           from stage_step s
                          where s.org_id = :org and s.failed > 0 and s.closed_at is null
                          order by s.run_id desc
                          limit %(walked)s) s
                  cross join lateral (select r.id, r.name, r.updated_at
                                        from run r
                                       where r.org_id = :org
                                         and r.id = s.run_id
                                         and r.completed_at is null
                                         and r.canceled_at is null
                                      offset 0) r
                  order by s.run_id desc
                  limit %(newest)s)) w
         order by w.updated_at desc, w.id desc
         limit %(most)s) w
 order by w.updated_at desc, w.id desc;

-- name: work_running
-- Return open plans and runs on which agents can work and that have no failed steps, latest
-- activity first. Only a limited number is read. If the limit falls among plans active in the same
-- minute, any of these plans may be left out.
select w.kind, w.id::text, w.name, w.status, w.dag_slug, w.dag_version, w.updated_at,
       c.statuses, c.active_steps,
       case when w.kind = 'run'
            then (select json_agg(distinct array[j.held_by, j.held_session])
                    from job j
                   where j.org_id = :org and j.run_id = w.id
                     and j.status = 'processing' and j.held_by is not null)
       end as holders,
       case when w.kind = 'run'
            then (select count(*)
                    from stage_step s
                   where s.org_id = :org and s.run_id = w.id and s.closed_at is not null)
       end as steps_done,
       case when w.kind = 'run'
            then array(select g.stage_slug
                         from stage_run g
                        where g.org_id = :org and g.run_id = w.id and g.completed_at is null)
       end as stages
  from (select w.*
          from ((select 'plan' as kind, p.id, p.name, p.status, '' as dag_slug,
                        0 as dag_version, p.updated_at, p.active_minute
                   from (select p.id, p.name, p.status, p.updated_at, p.active_minute
                           from plan p
                          where p.org_id = :org and p.completed_at is null
                          order by p.active_minute desc
                          limit %(newest)s) p
                  where p.status in ('planning', 'executing')
                    and not exists (select
                                      from plan_step s
                                     where s.org_id = :org
                                       and s.plan_id = p.id
                                       and s.fail_reason is not null
                                       and s.status = 'failed'
                                    offset 0)
                  order by p.active_minute desc
                  limit %(most)s)
                 union all
                (select 'run', r.id, r.name, null, r.dag_slug, r.dag_version, r.updated_at,
                        r.active_minute
                   from (select r.id, r.name, r.dag_slug, r.dag_version, r.updated_at,
                                r.awaiting_since, r.active_minute
                           from run r
                          where r.org_id = :org
                            and r.completed_at is null
                            and r.canceled_at is null
                          order by r.active_minute desc
                          limit %(newest)s) r
                  where r.awaiting_since is null
                    and not exists (select
                                      from stage_step s
                                     where s.org_id = :org
                                       and s.run_id = r.id
                                       and s.failed > 0
                                       and s.closed_at is null
                                    offset 0)
                  order by r.active_minute desc
                  limit %(most)s)) w
         order by w.updated_at desc, w.id desc
         limit %(most)s) w
 cross join lateral (
       select :status_initials as statuses,
              json_agg(json_build_array(s.status = 'in_progress', s.step_order, :title_of_step,
                                        array[s.held_by, s.held_session]))
                filter (where s.status in ('awaiting_input', 'in_progress')) as active_steps
         from plan_step s
        where s.org_id = :org and s.plan_id = w.id and w.kind = 'plan') c
 order by w.updated_at desc, w.id desc;

-- name: work_finished
-- Return plans and runs that were completed or canceled since a time, latest first. Only a limited
-- number of those that ended last is read.
select w.kind, w.id::text, w.name, w.canceled, left(w.reason, %(wide)s) as reason,
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
            then (select :status_initials
                    from plan_step s
                   where s.org_id = :org and s.plan_id = w.id)
       end as statuses
  from (select :last_look as since) l
 cross join lateral (
       (select 'plan' as kind, p.id, p.name, p.canceled is not null as canceled,
               p.fail_reason as reason, null as canceled_by, p.completed_at as ended_at
          from (select p.id, p.name, p.status, p.canceled, p.fail_reason, p.completed_at
                  from plan p
                 where p.org_id = :org and p.completed_at >= l.since
                 order by p.completed_at desc
                 limit %(newest)s) p
         where p.status = 'completed' or p.canceled
         order by p.completed_at desc
         limit %(most)s)
        union all
       (select 'run', r.id, r.name, false, null, null, r.completed_at
          from run r
         where r.org_id = :org and r.completed_at >= l.since
         order by r.completed_at desc
         limit %(most)s)
        union all
       (select 'run', r.id, r.name, true, r.cancel_reason, r.canceled_by, r.canceled_at
          from run r
         where r.org_id = :org and r.canceled_at >= l.since
         order by r.canceled_at desc
         limit %(most)s)
        order by ended_at desc, id desc
        limit %(most)s) w
 order by w.ended_at desc, w.id desc;

-- name: work_totals
-- Each number is counted up to a limit. Plans are counted before runs, so that no run is read in an
-- org with many plans. The last column says whether the org has any plan or run.
select o.open, o.awaiting,
       (select count(*)
          from ((select p.completed_at
                   from plan p
                  where p.org_id = :org and p.completed_at >= l.since
                  order by p.completed_at desc
                  limit %(counted)s)
                 union all
                (select r.completed_at
                   from run r
                  where r.org_id = :org and r.completed_at >= l.since
                  order by r.completed_at desc
                  limit %(counted)s)
                 union all
                (select r.canceled_at
                   from run r
                  where r.org_id = :org and r.canceled_at >= l.since
                  order by r.canceled_at desc
                  limit %(counted)s)
                 limit %(counted)s) w) as finished,
       l.since, l.now,
       -- The order makes PostgreSQL use the primary keys. An index that begins with another column
       -- would be read completely for an org without rows.
       case when o.open > 0 then true
            else coalesce((select true from plan p where p.org_id = :org order by p.id limit 1),
                          (select true from run r where r.org_id = :org order by r.id limit 1),
                          false)
       end as has_work
  from (select :last_look as since, app_now() as now) l
 cross join (select count(*) as open, count(w.awaiting_since) as awaiting
               from ((select p.id, null::timestamptz as awaiting_since
                        from plan p
                       where p.org_id = :org and p.status = 'executing'
                       order by p.id desc
                       limit %(counted)s)
                      union all
                     (select p.id, null
                        from plan p
                       where p.org_id = :org and p.status = 'planning'
                       order by p.id desc
                       limit %(counted)s)
                      union all
                     (select r.id, r.awaiting_since
                        from run r
                       where r.org_id = :org and r.completed_at is null and r.canceled_at is null
                       order by r.active_minute desc
                       limit %(counted)s)
                      limit %(counted)s) w) o;

-- name: activity_counts
-- Count the work done in an org since a time. Only a limited number of the newest audit entries and
-- usage records is read.
with latest as materialized (
  select e.subject, e.subject_id, e.event
    from audit_entry e
   where e.org_id = :org and e.at > %(since)s::timestamptz
   order by e.at desc
   limit %(most)s
)
select count(*) filter (where l.event = 'step_completed' and l.subject = 'plan') as steps,
       count(distinct l.subject_id) filter (where l.event = 'step_completed'
                                              and l.subject = 'plan') as plans,
       count(*) filter (where l.event = 'step_completed' and l.subject = 'run') as jobs,
       count(distinct l.subject_id) filter (where l.event = 'step_completed'
                                              and l.subject = 'run') as runs,
       count(*) filter (where l.event = 'step_failed') as failures,
       count(*) >= %(most)s as is_partial,
       (select coalesce(sum(u.cost_micros), 0)::bigint
          from (select u.cost_micros
                  from usage u
                 where u.org_id = :org and u.at > %(since)s::timestamptz
                 order by u.at desc
                 limit %(most)s) u) as cost_micros
  from latest l;

-- name: decisions_since
-- Return how many reviews each user decided since a time, by decision. The user with the most
-- decisions comes first.
select d.actor as user, d.decision, count(*) as reviews
  from (select e.actor, e.event, coalesce(e.brief, e.details) ->> 'decision' as decision
          from audit_entry e
         where e.org_id = :org and e.at > %(since)s::timestamptz
         order by e.at desc
         limit %(most)s) d
 where d.event = 'user_reviewed' and d.decision is not null
 group by d.actor, d.decision
 order by reviews desc, d.actor, d.decision
 limit %(users)s;

-- name: work_by_hour
-- Return the results, failures and cost of each of the last 24 hours that has any, in UTC, oldest
-- first. Only a limited number of the newest audit entries and usage records is read.
select to_char(w.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24') as hour, sum(w.done) as done,
       sum(w.failed) as failed, sum(w.cost_micros)::bigint as cost_micros
  from ((select e.at, (e.event = 'step_completed')::integer as done,
                (e.event = 'step_failed')::integer as failed, 0 as cost_micros
           from audit_entry e
          where e.org_id = :org and e.at >= (select date_trunc('hour', app_now()) - interval '23 hours')
          order by e.at desc
          limit %(most)s)
         union all
        (select u.at, 0, 0, coalesce(u.cost_micros, 0)
           from usage u
          where u.org_id = :org and u.at >= (select date_trunc('hour', app_now()) - interval '23 hours')
          order by u.at desc
          limit %(most)s)) w
 group by 1
 order by 1;
