-- name: insert_steps
insert into plan_step (:columns_of_plan_step)
values %(rows)s;

-- name: insert_step_briefs
insert into step_brief (:columns_of_step_brief)
values %(rows)s;

-- name: update_step
-- If the step's status has changed since it was loaded, the status becomes null and violates the
-- NOT NULL constraint. Steps are updated one by one, because a join with a list of rows would keep
-- a query plan made for a small table. The filter on plan_id limits the rows read if the planner
-- chooses an index meant for another query.
update plan_step
   set step_order = %(step_order)s,
       status = case when status = %(old_status)s then %(status)s end,
       attempt = %(attempt)s,
       in_progress_since = %(in_progress_since)s,
       last_seen_at = coalesce(%(seen_at)s, last_seen_at),
       completed_at = %(completed_at)s,
       held_by = %(held_by)s,
       held_session = %(held_session)s,
       fail_reason = %(fail_reason)s,
       silent_holders = %(silent_holders)s,
       answers_revision = %(answers_revision)s
 where org_id = :org and plan_id = %(plan_id)s and id = %(id)s;

-- name: complete_and_start
-- Complete a step and start another step, as two executions of `update_step` would. A second
-- statement costs PostgreSQL more than a second row.
update plan_step
   set status = case when id = %(completed)s
                     then case when status = %(old_completed)s then 'completed' end
                     when status = %(old_started)s then 'in_progress' end,
       completed_at = case when id = %(completed)s then %(completed_at)s else completed_at end,
       in_progress_since = case when id = %(started)s then %(started_at)s
                                else in_progress_since end,
       last_seen_at = case when id = %(started)s then %(seen_at)s else last_seen_at end,
       held_by = case when id = %(started)s then %(held_by)s else held_by end,
       held_session = case when id = %(started)s then %(held_session)s else held_session end
 where org_id = :org and plan_id = %(plan_id)s and id in (%(completed)s, %(started)s);

-- name: touch_steps
update plan_step set last_seen_at = %(now)s where org_id = :org and id = any (%(ids)s);

-- name: update_title
update plan_step set title = %(title)s where org_id = :org
                                         and plan_id = %(plan_id)s and id = %(id)s;

-- name: update_dependencies
update plan_step set depends_on = %(depends_on)s where org_id = :org
                                                   and plan_id = %(plan_id)s and id = %(id)s;

-- name: update_instructions
update step_brief set instructions = %(instructions)s where org_id = :org and step_id = %(step_id)s;

-- name: insert_result
insert into step_result (:columns_of_step_result)
values %(merged_rows)s;

-- name: delete_step_briefs
delete from step_brief where org_id = :org and step_id = any (%(ids)s);

-- name: delete_steps
delete from plan_step where org_id = :org and id = any (%(ids)s);
