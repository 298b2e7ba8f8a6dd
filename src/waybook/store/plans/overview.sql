-- name: plan_totals
-- Return the number of open plans and of plans that ended, counted up to a limit, including plans in
-- trouble.
select (select count(*)
          from ((select p.status from plan p
                  where p.org_id = :org and p.status = 'executing' limit %(counted)s)
                 union all
                (select p.status from plan p
                  where p.org_id = :org and p.status = 'planning' limit %(counted)s)
                limit %(counted)s) p) as running,
       (select count(*)
          from (select
                  from plan p
                 where p.org_id = :org and p.completed_at >= :last_look
                 order by p.completed_at desc
                 limit %(counted)s) p) as finished,
       exists (select from plan where org_id = :org)
         or exists (select from run where org_id = :org) as has_work,
       :last_look as since, app_now() as now;

-- name: plans_in_trouble
-- Return open plans that are stalled or have a failed step, and plans that failed lately, latest
-- activity first, each with its failed steps and with the step that has been inactive longest. Each
-- row also has the number of all such plans, of those that agents can still work on, and of those
-- that ended since the reader's last look.
select :row_of_plan, p.fail_reason,
       (select json_agg(json_build_array(s.id, s.step_order, :title_of_step, s.held_by,
                                         s.fail_reason)
                        order by s.step_order)
          from plan_step s
         where s.org_id = :org and s.plan_id = p.id and s.status = 'failed') as failed_steps,
       case when p.status = 'stalled'
            then (select json_build_array(s.id, s.step_order, :title_of_step, s.held_by,
                                          s.fail_reason)
                    from plan_step s
                   where s.org_id = :org and s.plan_id = p.id and s.status = 'in_progress'
                   order by greatest(s.in_progress_since, s.last_seen_at), s.step_order
                   limit 1)
       end as stalled_step,
       :last_change_of_plan as last_change, p.in_trouble, p.running, p.finished
  from (select p.*, count(*) over () as in_trouble,
               count(*) filter (where p.status in ('planning', 'executing')) over () as running,
               count(*) filter (where p.completed_at >= :last_look) over () as finished
          from (select p.id, p.name, p.status, p.revision, p.updated_at, p.fail_reason,
                       null::timestamptz as completed_at
                  from (select p.id, p.name, p.status, p.revision, p.updated_at, p.fail_reason, p.audit_seq
                          from ((select p.id
                                   from plan p
                                  where p.org_id = :org and p.status = 'stalled'
                                  order by p.id desc
                                  limit %(newest)s)
                                 union
                                (select f.plan_id
                                   from (select s.plan_id
                                           from plan_step s
                                          where s.org_id = :org
                                            and s.fail_reason is not null
                                            and s.status = 'failed'
                                          order by s.plan_id desc
                                          limit %(newest)s) f)) f
                         cross join lateral (select p.* from plan p where p.org_id = :org and p.id = f.id offset 0) p
                         where p.completed_at is null) p
                 union all
                select p.id, p.name, p.status, p.revision, p.updated_at, p.fail_reason,
                       p.completed_at
                  from (select p.*
                          from (select p.id, p.name, p.status, p.revision, p.updated_at, p.fail_reason, p.audit_seq,
                                       p.completed_at
                                  from plan p
                                 where p.org_id = :org
                                   and p.status = 'failed'
                                   and p.completed_at >= (select least(:last_look, app_now() - interval '1 day'))
                                 order by p.completed_at desc
                                 limit %(newest)s) p
                         where not :plan_is_canceled) p) p
         order by p.updated_at desc, p.id desc
         limit %(most)s) p
  :details_of_plan
 order by p.updated_at desc, p.id desc;

-- name: plans_running
-- Return open plans on which agents can work and that have no failed step, latest activity first,
-- among a limited number of the open plans, each with the holders of its steps.
select :row_of_plan,
       (select json_agg(distinct s.held_by)
          from plan_step s
         where s.org_id = :org
           and s.plan_id = p.id and s.status = 'in_progress' and s.held_by is not null) as holders
  from (select p.*
          from (select p.id, p.name, p.status, p.revision, p.updated_at, p.active_minute
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
                              and s.status = 'failed')
         order by p.active_minute desc, p.updated_at desc, p.id desc
         limit %(most)s) p
  :details_of_plan
 order by p.updated_at desc, p.id desc;

-- name: plans_finished
-- Return plans that were completed or canceled since a given time, latest first, among a limited
-- number of plans that ended.
select p.id::text, p.name, p.status, p.status = 'failed' as canceled, p.fail_reason, b.created_at,
       p.completed_at, c.counts, :last_change_of_plan as last_change
  from (select p.*
          from (select p.id, p.name, p.status, p.fail_reason, p.completed_at
                  from plan p
                 where p.org_id = :org and p.completed_at >= :last_look
                 order by p.completed_at desc, p.id desc
                 limit %(newest)s) p
         where p.status = 'completed' or :plan_is_canceled
         order by p.completed_at desc, p.id desc
         limit %(most)s) p
  :details_of_plan
 order by p.completed_at desc, p.id desc;
