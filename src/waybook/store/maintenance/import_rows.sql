-- Insert the rows of an exported plan or run. The serving role runs all statements in one
-- transaction, so row-level security puts every row into the caller's org.

-- name: is_taken
-- Return whether a plan, a run or an audit chain with this id exists in the org.
select exists (select from plan where org_id = :org and id = %(id)s)
    or exists (select from run where org_id = :org and id = %(id)s)
    or exists (select from audit_entry where org_id = :org and subject_id = %(id)s) as is_taken,
       app_now() as now;

-- name: plan
-- Also insert index entries for the words of the plan's name.
with made as (
  insert into plan (id, name, status, revision, stall_seconds, resumed_at, completed_at,
                    fail_reason, canceled, usage, budget, audit_seq, audit_hash, updated_at,
                    stall_check_at)
  select id, name, status, revision, stall_seconds, resumed_at, completed_at, fail_reason,
         canceled, usage, budget, audit_seq, audit_hash, updated_at,
         case when status = 'executing' then updated_at end
    from json_populate_recordset(null::plan, %(items)s::json)
  returning id, name)
insert into plan_word (word, plan_id)
select w.word, m.id
  from made m
 cross join lateral unnest(app_name_parts(m.name)) as w (word);

-- name: plan_brief
insert into plan_brief (plan_id, research_question, formatting_notes, skill_execution_id,
                        created_at, created_by, copied_from, copied_seq, sequential)
select plan_id, research_question, formatting_notes, skill_execution_id, created_at, created_by,
       copied_from, copied_seq, sequential
  from json_populate_recordset(null::plan_brief, %(items)s::json);

-- name: plan_step
insert into plan_step (id, plan_id, step_order, step_type, title, status, attempt, stall_seconds,
                       in_progress_since, completed_at, held_by, held_session, fail_reason,
                       depends_on, max_attempts, silent_holders, copied_from, answers_revision)
select id, plan_id, step_order, step_type, title, status, attempt, stall_seconds,
       in_progress_since, completed_at, held_by, held_session, fail_reason,
       nullif(depends_on, '{}'), max_attempts, silent_holders, copied_from,
       answers_revision
  from json_populate_recordset(null::plan_step, %(items)s::json);

-- name: step_brief
insert into step_brief (step_id, instructions, result_schema, required_sources)
select step_id, instructions, result_schema, required_sources
  from json_populate_recordset(null::step_brief, %(items)s::json);

-- name: step_result
insert into step_result (step_id, result_summary, confidence, report, formatting_notes, usage)
select step_id, result_summary, confidence, report, formatting_notes, usage
  from json_populate_recordset(null::step_result, %(items)s::json);

-- name: branching_condition
insert into branching_condition (id, plan_id, step_id, position, expression, action,
                                 target_step_id, steps, reason, outcome, from_step_id,
                                 max_repeats, repeats, on_exhausted, cause)
select id, plan_id, step_id, position, expression, action, target_step_id, steps, reason, outcome,
       from_step_id, max_repeats, repeats, on_exhausted, cause
  from json_populate_recordset(null::branching_condition, %(items)s::json);

-- name: review
insert into review (id, plan_id, step_id, summary, questions, result_summary, requested_at,
                    requested_by, decision, feedback, decided_at, decided_by, decided_via,
                    requested_as, decided_as)
select id, plan_id, step_id, summary, questions, result_summary, requested_at, requested_by,
       decision, feedback, decided_at, decided_by, decided_via, requested_as, decided_as
  from json_populate_recordset(null::review, %(items)s::json);

-- name: plan_session
insert into plan_session (plan_id, session, seen_at)
select plan_id, session, seen_at
  from json_populate_recordset(null::plan_session, %(items)s::json);

-- name: artifact
insert into artifact (id, plan_id, step_id, kind, title, content, superseded, media_type, tags,
                      metadata, version, content_hash, created_at, created_by)
select id, plan_id, step_id, kind, title, content, superseded, media_type, coalesce(tags, '[]'),
       metadata, version, content_hash, created_at, created_by
  from json_populate_recordset(null::artifact, %(items)s::json);

-- name: source
-- Keep an existing source, because its id is derived from its entire content.
insert into source (id, url, title, quote, content_hash, created_at, created_by)
select id, url, title, quote, content_hash, created_at, created_by
  from json_populate_recordset(null::source, %(items)s::json)
    on conflict (org_id, id) do nothing;

-- name: artifact_source
insert into artifact_source (artifact_id, source_id, position, retrieved_at)
select artifact_id, source_id, position, retrieved_at
  from json_populate_recordset(null::artifact_source, %(items)s::json);

-- name: usage
insert into usage (id, plan_id, step_id, run_id, job_id, attempt, input_tokens, output_tokens,
                   cost_micros, model, at, by, session)
select id, plan_id, step_id, run_id, job_id, attempt, input_tokens, output_tokens, cost_micros,
       model, at, by, session
  from json_populate_recordset(null::usage, %(items)s::json);

-- name: run
-- Also insert index entries for the words of the run's name.
with made as (
  insert into run (id, name, dag_slug, dag_version, completed_at, canceled_at, canceled_by,
                   cancel_reason, copied_from, copied_seq, usage, lists, audit_seq, audit_hash,
                   updated_at)
  select id, name, dag_slug, dag_version, completed_at, canceled_at, canceled_by, cancel_reason,
         copied_from, copied_seq, usage, lists, audit_seq, audit_hash, updated_at
    from json_populate_recordset(null::run, %(items)s::json)
  returning id, name)
insert into run_word (word, run_id)
select w.word, m.id
  from made m
 cross join lateral unnest(app_name_parts(m.name)) as w (word);

-- name: run_brief
insert into run_brief (run_id, input, created_at, created_by)
select run_id, input, created_at, created_by
  from json_populate_recordset(null::run_brief, %(items)s::json);

-- name: stage_run
-- Also record in the run since when it awaits feedback.
with made as (
  insert into stage_run (run_id, stage_slug, models, prior, started_at, completed_at, feedback,
                         feedback_at, feedback_by)
  select run_id, stage_slug, models, prior, started_at, completed_at, feedback, feedback_at,
         feedback_by
    from json_populate_recordset(null::stage_run, %(items)s::json)
  returning run_id, completed_at, feedback)
update run r
   set awaiting_since = m.since
  from (select run_id, max(completed_at) as since
          from made
         group by run_id
        having bool_and(completed_at is not null) and bool_or(feedback is null)) m
 where r.org_id = :org
   and r.id = m.run_id and r.completed_at is null and r.canceled_at is null;

-- name: stage_step
insert into stage_step (run_id, stage_slug, step_key, total, done, failed, opened_at, closed_at)
select run_id, stage_slug, step_key, total, done, failed, opened_at, closed_at
  from json_populate_recordset(null::stage_step, %(items)s::json);

-- name: job
insert into job (id, run_id, stage_slug, step_key, job_type, model, rank, unit, status, attempt,
                 tries, ready_at, held_by, held_session, started_at, completed_at, error, usage,
                 continues_id, part, document_id, counted)
select id, run_id, stage_slug, step_key, job_type, model, rank, unit, status, attempt, tries,
       ready_at, held_by, held_session, started_at, completed_at, error, usage, continues_id, part,
       document_id, counted
  from json_populate_recordset(null::job, %(items)s::json);

-- name: job_part
insert into job_part (job_id, run_id, part, content, content_hash)
select job_id, run_id, part, content, content_hash
  from json_populate_recordset(null::job_part, %(items)s::json);

-- name: document
insert into document (id, run_id, stage_slug, step_key, job_id, document_key, model, lineage,
                      reviewer, version, content, content_hash, created_at, copied_from)
select id, run_id, stage_slug, step_key, job_id, document_key, model, lineage, reviewer, version,
       content, content_hash, created_at, copied_from
  from json_populate_recordset(null::document, %(items)s::json);

-- name: rendered_document
insert into rendered_document (id, run_id, document_id, job_id, markdown, html, content_hash,
                               created_at)
select id, run_id, document_id, job_id, markdown, html, content_hash, created_at
  from json_populate_recordset(null::rendered_document, %(items)s::json);

-- name: late_result
insert into late_result (id, run_id, job_id, attempt, content, content_hash, created_at, created_by)
select id, run_id, job_id, attempt, content, content_hash, created_at, created_by
  from json_populate_recordset(null::late_result, %(items)s::json);
