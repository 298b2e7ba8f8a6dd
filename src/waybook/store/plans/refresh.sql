-- name: changes_since
-- Return the last audit entry that a cached plan contains, and the later entries up to a limit. The
-- details of long entries are left out. The condition on the time excludes older partitions.
select e.seq, e.at, e.hash, app_now() as now,
       case when pg_column_size(e.details) <= %(longest)s::integer then e.details::text end
         as details
  from audit_entry e
 where e.org_id = :org
   and e.subject_id = %(plan_id)s
   and e.seq >= %(seq)s::integer
   and e.at >= %(at)s::timestamptz
 order by e.seq
 limit %(most)s;

-- name: current_plan
-- Return the plan with its steps, its conditions and the texts of one step, and whether an earlier
-- call on the plan had the caller's session.
select :row_of_loaded_plan, :is_known_session as is_known_session,
       :conditions_of_plan as conditions, :step_list_of_plan as steps,
       (select :texts_of_step
          from step_brief t
         where t.org_id = :org and t.step_id = %(step_id)s) as text
  from plan p
  join plan_brief b on b.org_id = :org and b.plan_id = p.id
 where p.org_id = :org and p.id = %(plan_id)s;

-- name: current_plan_to_claim
-- As `current_plan`, with the texts of the step that the caller most likely gets: the step it
-- holds, or else the first pending step, even if that step has unfinished dependencies.
select :row_of_loaded_plan, :is_known_session as is_known_session,
       :conditions_of_plan as conditions, :step_list_of_plan as steps,
       (select :texts_of_step
          from (select s.id
                  from plan_step s
                 where s.org_id = :org
                   and s.plan_id = %(plan_id)s
                   and (s.status = 'pending'
                        or s.status = 'in_progress' and (s.held_by is null or :is_held_by_caller))
                 order by s.status, s.step_order
                 limit 1) n
          join step_brief t on t.org_id = :org and t.step_id = n.id) as text
  from plan p
  join plan_brief b on b.org_id = :org and b.plan_id = p.id
 where p.org_id = :org and p.id = %(plan_id)s;
