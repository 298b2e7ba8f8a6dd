-- name: changes_since
-- Return the last audit entry that a cached plan contains, and the entries after it, up to a limit,
-- without the details of long entries. The condition on the time excludes older partitions.
select e.seq, e.at, e.hash, app_now() as now,
       case when e.seq > %(seq)s::integer
                 and pg_column_size(e.details) + coalesce(pg_column_size(e.packed), 0)
                     <= %(longest)s::integer
            then :details_of_entry
       end as details
  from audit_entry e
 where e.org_id = :org
   and e.subject_id = %(plan_id)s
   and e.seq >= %(seq)s::integer
   and e.at >= %(at)s::timestamptz
 order by e.seq
 limit %(most)s;

-- name: current_plan
-- Return the plan without its steps, whether it has seen the caller's session before, and its
-- conditions.
select :row_of_loaded_plan, :is_known_session as is_known_session, :conditions_of_plan as conditions
  from plan p
  join plan_brief b on b.org_id = :org and b.plan_id = p.id
 where p.org_id = :org and p.id = %(plan_id)s;
