-- name: insert_plan
insert into plan (:columns_of_plan) values (:values_of_plan);

-- name: insert_plan_words
-- Insert index entries for the words of a new plan's name.
insert into plan_word (org_id, word, plan_id)
select p.org_id, w.word, p.id
  from plan p
 cross join lateral unnest(app_name_parts(p.name)) as w (word)
 where p.org_id = :org and p.id = %(id)s;

-- name: insert_plan_brief
insert into plan_brief (:columns_of_plan_brief) values (:values_of_plan_brief);

-- name: update_plan
:update_of_plan;

-- name: update_plan_if_unchanged
-- Update a plan that was cached and is not locked, if it has not changed since and the database
-- clock agrees with the call's time. Otherwise all statements sent with this one fail. The update
-- itself locks the plan, because a separate lock would add a record to the write-ahead log.
with changed as (
  :update_of_plan
     and audit_seq = %(old_seq)s
     and audit_hash = %(old_hash)s
     and :time_is_expected
  returning id)
select :one_row_or_stale as updated, app_statement_time() as now from changed;

-- name: check_stalls
-- Check a limited number of executing plans whose stall check is due, longest overdue first, and
-- return those with a step that may have been inactive for too long. The decision is made later,
-- while the plan is locked. Every other plan gets the time of its next check, the earliest time at
-- which one of its steps can stall. A plan that changed meanwhile, or is locked, stays due.
with due as (
  select p.id, p.audit_seq, p.stall_seconds, p.resumed_at, p.stall_check_at
    from plan p
   where p.org_id = :org and p.stall_check_at <= (select app_statement_time())
   order by p.stall_check_at
   limit %(most)s),
checked as materialized (
  select d.id, d.audit_seq, d.stall_check_at, s.stalls_at,
         case when s.stalls_at is not null
              then least(s.stalls_at, (select app_statement_time()) + s.shortest) end as next_at
    from due d
   cross join lateral (
         select min(greatest(s.in_progress_since, s.last_seen_at, d.resumed_at) + t.threshold)
                  filter (where s.status = 'in_progress') as stalls_at,
                min(t.threshold) as shortest
           from plan_step s
          cross join lateral (select make_interval(secs => coalesce(s.stall_seconds,
                                                                    d.stall_seconds,
                                                                    %(patience)s))) t (threshold)
          where s.org_id = :org and s.plan_id = d.id) s),
free as (
  select p.id
    from checked c
    join plan p on p.org_id = :org and p.id = c.id and p.audit_seq = c.audit_seq
   where c.stalls_at is null or c.stalls_at >= (select app_statement_time())
     for no key update of p skip locked),
moved as (
  update plan p
     set stall_check_at = c.next_at
    from checked c
    join free f on f.id = c.id
   where p.org_id = :org and p.id = c.id and p.audit_seq = c.audit_seq)
select c.id::text
  from checked c
 where c.stalls_at < (select app_statement_time())
 order by c.stall_check_at, c.id;

-- name: update_budget
update plan set budget = %(budget)s where org_id = :org and id = %(id)s;

-- name: delete_conditions
delete from branching_condition where org_id = :org and id = any (%(ids)s);

-- name: insert_conditions
insert into branching_condition (:columns_of_branching_condition)
values %(rows)s;

-- name: update_condition
update branching_condition set outcome = %(outcome)s where org_id = :org and id = %(id)s;

-- name: insert_review
insert into review (:columns_of_review) values (:values_of_review);

-- name: decide_review
with written as (
  update review
     set decision = %(decision)s,
         feedback = %(feedback)s,
         decided_at = %(decided_at)s,
         decided_by = %(decided_by)s,
         decided_via = %(decided_via)s,
         decided_as = %(decided_as)s
   where org_id = :org and id = %(id)s and decision is null
  returning 1)
select :one_row_or_stale from written;

-- name: insert_session
insert into plan_session (:columns_of_plan_session) values (:values_of_plan_session);

-- name: insert_artifact
insert into artifact (:columns_of_artifact) values (:values_of_artifact);

-- name: insert_sources
-- Keep an existing source, because its id is derived from its entire content.
insert into source (:columns_of_source)
values %(rows)s
    on conflict (org_id, id) do nothing;

-- name: insert_links
insert into artifact_source (:columns_of_artifact_source)
values %(rows)s;

-- name: insert_usage
insert into usage (:columns_of_usage) values (:values_of_usage);

-- name: insert_skill_execution
insert into skill_execution (id, skill, session, status, output_media_type,
                             formatting_instructions, started_at, started_by, audit_seq, audit_hash)
values (%(id)s, %(skill)s, %(session)s, 'started', %(output_media_type)s,
        %(formatting_instructions)s, %(started_at)s, %(started_by)s, %(audit_seq)s, %(audit_hash)s);

-- name: complete_skill_execution
with written as (
  update skill_execution
     set status = 'completed',
         completed_at = %(completed_at)s,
         outcome = %(outcome)s,
         audit_seq = %(audit_seq)s,
         audit_hash = %(audit_hash)s
   where org_id = :org and id = %(id)s and status = 'started'
  returning 1)
select :one_row_or_stale from written;

-- name: latest
-- Return the latest skill execution that this session of the user started and has not completed.
select id::text
  from skill_execution
 where org_id = :org and session = %(session)s and started_by = %(user)s and status = 'started'
 order by started_at desc, id desc
 limit 1;

-- name: lock_execution
select id::text, skill, status, session, audit_seq, audit_hash, started_at
  from skill_execution
 where org_id = :org and id = %(id)s
   for update;

-- name: stored_execution
-- Return all fields of a skill execution that its audit covers.
select json_build_object(
         'skill', skill, 'session', session, 'status', status,
         'output_media_type', output_media_type,
         'formatting_instructions', formatting_instructions,
         'started_at', started_at, 'started_by', started_by,
         'completed_at', completed_at, 'outcome', outcome) as fields
  from skill_execution
 where org_id = :org and id = %(id)s;

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
   set step_order = %(order)s,
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

-- name: update_touches
update plan_step set touches = %(touches)s where org_id = :org
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
