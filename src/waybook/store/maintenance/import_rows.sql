-- Insert the rows of an exported plan or run. The database role of the server runs all statements
-- in one transaction, so row-level security puts every row into the caller's org.

-- name: is_taken
-- Return whether a plan, a run or an audit chain with this id exists in the org.
select exists (select from plan where org_id = :org and id = %(id)s)
    or exists (select from run where org_id = :org and id = %(id)s)
    or exists (select from audit_entry where org_id = :org and subject_id = %(id)s) as is_taken,
       app_now() as now;

-- name: plan
-- Also insert index entries for the words of the plan's name.
with made as (
  insert into plan (:columns_of_plan, stall_check_at)
  select :columns_of_plan, case when status = 'executing' then updated_at end
    from json_populate_recordset(null::plan, %(items)s::json)
  returning id, name)
insert into plan_word (word, plan_id)
select w.word, m.id
  from made m
 cross join lateral unnest(app_name_parts(m.name)) as w (word);

-- name: run
-- Also insert index entries for the words of the run's name.
with made as (
  insert into run (:columns_of_run)
  select :columns_of_run from json_populate_recordset(null::run, %(items)s::json)
  returning id, name)
insert into run_word (word, run_id)
select w.word, m.id
  from made m
 cross join lateral unnest(app_name_parts(m.name)) as w (word);

-- name: stage_run
-- Also record in the run since when it awaits feedback.
with made as (
  insert into stage_run (:columns_of_stage_run)
  select :columns_of_stage_run from json_populate_recordset(null::stage_run, %(items)s::json)
  returning run_id, completed_at, feedback)
update run r
   set awaiting_since = m.since
  from (select run_id, max(completed_at) as since
          from made
         group by run_id
        having bool_and(completed_at is not null) and bool_or(feedback is null)) m
 where r.org_id = :org
   and r.id = m.run_id and r.completed_at is null and r.canceled_at is null;

-- name: plan_brief
insert into plan_brief (:columns_of_plan_brief)
select :columns_of_plan_brief
  from json_populate_recordset(null::plan_brief, %(items)s::json);

-- name: plan_step
insert into plan_step (:columns_of_plan_step)
select :columns_of_plan_step
  from json_populate_recordset(null::plan_step, %(items)s::json);

-- name: step_brief
insert into step_brief (:columns_of_step_brief)
select :columns_of_step_brief
  from json_populate_recordset(null::step_brief, %(items)s::json);

-- name: step_result
insert into step_result (:columns_of_step_result)
select :columns_of_step_result
  from json_populate_recordset(null::step_result, %(items)s::json);

-- name: branching_condition
insert into branching_condition (:columns_of_branching_condition)
select :columns_of_branching_condition
  from json_populate_recordset(null::branching_condition, %(items)s::json);

-- name: review
insert into review (:columns_of_review)
select :columns_of_review
  from json_populate_recordset(null::review, %(items)s::json);

-- name: plan_session
insert into plan_session (:columns_of_plan_session)
select :columns_of_plan_session
  from json_populate_recordset(null::plan_session, %(items)s::json);

-- name: artifact
insert into artifact (:columns_of_artifact)
select :columns_of_artifact
  from json_populate_recordset(null::artifact, %(items)s::json);

-- name: source
-- Keep an existing source, because its id is derived from its entire content.
insert into source (:columns_of_source)
select :columns_of_source
  from json_populate_recordset(null::source, %(items)s::json)
    on conflict (org_id, id) do nothing;

-- name: artifact_source
insert into artifact_source (:columns_of_artifact_source)
select :columns_of_artifact_source
  from json_populate_recordset(null::artifact_source, %(items)s::json);

-- name: usage
insert into usage (:columns_of_usage)
select :columns_of_usage
  from json_populate_recordset(null::usage, %(items)s::json);

-- name: comment
insert into comment (:columns_of_comment)
select :columns_of_comment
  from json_populate_recordset(null::comment, %(items)s::json);

-- name: run_brief
insert into run_brief (:columns_of_run_brief)
select :columns_of_run_brief
  from json_populate_recordset(null::run_brief, %(items)s::json);

-- name: stage_step
insert into stage_step (:columns_of_stage_step)
select :columns_of_stage_step
  from json_populate_recordset(null::stage_step, %(items)s::json);

-- name: job
insert into job (:columns_of_job)
select :columns_of_job
  from json_populate_recordset(null::job, %(items)s::json);

-- name: job_part
insert into job_part (:columns_of_job_part)
select :columns_of_job_part
  from json_populate_recordset(null::job_part, %(items)s::json);

-- name: document
insert into document (:columns_of_document)
select :columns_of_document
  from json_populate_recordset(null::document, %(items)s::json);

-- name: rendered_document
insert into rendered_document (:columns_of_rendered_document)
select :columns_of_rendered_document
  from json_populate_recordset(null::rendered_document, %(items)s::json);

-- name: late_result
insert into late_result (:columns_of_late_result)
select :columns_of_late_result
  from json_populate_recordset(null::late_result, %(items)s::json);
