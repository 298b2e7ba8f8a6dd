-- name: finished_steps
-- Return the completed steps of a plan, and of the newest completed plans, with time and cost.
-- Reviewed steps are left out, because their time includes waiting for a person. So are steps
-- carried over into a copy: they were never in progress there.
with chosen as (
  (select p.id, true as is_own
     from plan p
    where p.org_id = :org and p.id = %(plan_id)s)
   union all
  (select p.id, false
     from plan p
    where p.org_id = :org
      and p.status = 'completed'
      and p.id <> %(plan_id)s
    order by p.id desc
    limit %(plans)s)),
used as (
  select u.step_id, sum(u.cost_micros)::bigint as cost_micros
    from chosen c
    join usage u on u.org_id = :org and u.plan_id = c.id
   group by u.step_id)
select c.is_own, s.title,
       extract(epoch from s.completed_at - s.in_progress_since)::float8 as seconds,
       used.cost_micros
  from chosen c
 cross join lateral (select s.* from plan_step s where s.org_id = :org
                                                   and s.plan_id = c.id offset 0) s
  left join used on used.step_id = s.id
 where s.status = 'completed'
   and s.in_progress_since is not null
   and not exists (select
                     from review v
                    where v.org_id = :org
                      and v.plan_id = s.plan_id
                      and v.step_id = s.id)
 order by c.is_own desc, s.completed_at desc, s.id
 limit %(most)s;
