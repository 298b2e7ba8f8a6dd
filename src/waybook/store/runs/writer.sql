-- name: insert_definition
insert into dag_definition (slug, version, name, body, body_hash, created_at, created_by)
values (%(slug)s, %(version)s, %(name)s, %(body)s, %(body_hash)s, %(now)s, %(created_by)s);

-- name: insert_run
-- A run without work is completed immediately.
insert into run (id, name, dag_slug, dag_version, completed_at, awaiting_since, audit_seq,
                 audit_hash, updated_at, copied_from, copied_seq, lists)
values (%(id)s, %(name)s, %(dag_slug)s, %(dag_version)s, %(completed_at)s, %(awaiting_since)s,
        %(audit_seq)s, %(audit_hash)s, %(now)s, %(copied_from)s, %(copied_seq)s, %(lists)s);

-- name: insert_run_words
-- Insert index entries for the words of a new run's name.
insert into run_word (org_id, word, run_id)
select r.org_id, w.word, r.id
  from run r
 cross join lateral unnest(app_name_parts(r.name)) as w (word)
 where r.org_id = :org and r.id = %(id)s;

-- name: insert_run_brief
insert into run_brief (run_id, input, created_at, created_by)
values (%(run_id)s, %(input)s, %(created_at)s, %(created_by)s);

-- name: update_run
-- If the run's audit number has changed since it was loaded, the number becomes null and the NOT
-- NULL constraint rejects the update.
update run
   set completed_at = %(completed_at)s,
       canceled_at = %(canceled_at)s,
       canceled_by = %(canceled_by)s,
       cancel_reason = %(cancel_reason)s,
       awaiting_since = %(awaiting_since)s,
       usage = coalesce(%(usage)s, usage),
       lists = coalesce(%(lists)s, lists),
       audit_seq = case when audit_seq = %(old_seq)s then %(audit_seq)s::integer end,
       audit_hash = %(audit_hash)s,
       updated_at = %(now)s
 where org_id = :org and id = %(id)s;

-- name: update_unchanged_run
-- Lock and update a run if it has not changed since it was cached and the database clock agrees
-- with the call's time. Otherwise a division by zero makes the whole message fail.
with updated as (
  update run
     set completed_at = %(completed_at)s,
         canceled_at = %(canceled_at)s,
         canceled_by = %(canceled_by)s,
         cancel_reason = %(cancel_reason)s,
         awaiting_since = %(awaiting_since)s,
         usage = coalesce(%(usage)s, usage),
         lists = coalesce(%(lists)s, lists),
         audit_seq = %(audit_seq)s,
         audit_hash = %(audit_hash)s,
         updated_at = %(now)s
   where org_id = :org
     and id = %(id)s
     and audit_seq = %(old_seq)s
     and audit_hash = %(old_hash)s
     and :time_is_expected
  returning 1)
select 1 / count(*) as updated, app_statement_time() as now from updated;

-- name: advance_unchanged_run
-- Lock a run and update its audit position, under the same conditions as `update_unchanged_run`.
-- This is for calls that change only steps, jobs and documents.
with updated as (:advance_of_run)
select 1 / count(*) as updated, app_statement_time() as now from updated;

-- name: advance_run_with_job
-- One statement for both updates costs less than two.
with updated as (:advance_of_run),
     job_update as (:update_of_job)
select 1 / count(*) as updated, app_statement_time() as now from updated;

-- name: insert_stage
insert into stage_run (run_id, stage_slug, models, prior, started_at, completed_at, feedback,
                       feedback_at, feedback_by)
values (%(run_id)s, %(stage_slug)s, %(models)s, %(prior)s, %(started_at)s, %(completed_at)s,
        %(feedback)s, %(feedback_at)s, %(feedback_by)s);

-- name: update_stage
update stage_run
   set completed_at = %(completed_at)s,
       feedback = %(feedback)s,
       feedback_at = %(feedback_at)s,
       feedback_by = %(feedback_by)s
 where org_id = :org and run_id = %(run_id)s and stage_slug = %(stage_slug)s;

-- name: insert_steps
insert into stage_step (run_id, stage_slug, step_key, total, done, failed, opened_at, closed_at)
values %(rows)s;

-- name: update_step
update stage_step
   set done = %(done)s,
       failed = %(failed)s,
       closed_at = %(closed_at)s
 where org_id = :org
   and run_id = %(run_id)s and stage_slug = %(stage_slug)s and step_key = %(step_key)s;

-- name: insert_jobs
-- The jobs are given as their rows in the audit, because a list of values would have to be planned
-- for each number of jobs. The org comes from the run, so that a cluster inserts the jobs where the
-- run is.
insert into job (org_id, id, run_id, stage_slug, step_key, job_type, model, rank, unit, status,
                 attempt, tries, ready_at, held_by, held_session, started_at, completed_at, error,
                 continues_id, part, document_id, counted)
select r.org_id, n.id, r.id, n.stage_slug, n.step_key, n.job_type, n.model, n.rank, n.unit, n.status,
       n.attempt, n.tries, n.ready_at, n.held_by, n.held_session, n.started_at, n.completed_at,
       n.error, n.continues_id, n.part, n.document_id, n.counted
  from run r
 cross join json_to_recordset(%(jobs)s::json)
       as n (id uuid, stage_slug text, step_key text, job_type text, model text, rank integer,
             unit json, status text, attempt integer, tries integer, ready_at timestamptz,
             held_by text, held_session text, started_at timestamptz, completed_at timestamptz,
             error text, continues_id uuid, part integer, document_id uuid, counted boolean)
 where r.org_id = :org and r.id = %(run_id)s;

-- name: insert_job
-- This costs less than `insert_jobs` with a list of one job.
insert into job (id, run_id, stage_slug, step_key, job_type, model, rank, unit, status, attempt,
                 tries, ready_at, held_by, held_session, started_at, completed_at, error,
                 continues_id, part, document_id, counted)
values (%(id)s, %(run_id)s, %(stage_slug)s, %(step_key)s, %(job_type)s, %(model)s, %(rank)s,
        %(unit)s, %(status)s, %(attempt)s, %(tries)s, %(ready_at)s, %(held_by)s, %(held_session)s,
        %(started_at)s, %(completed_at)s, %(error)s, %(continues_id)s, %(part)s, %(document_id)s,
        %(counted)s);

-- name: update_job
:update_of_job;

-- name: touch_job
update job set seen_at = %(now)s where org_id = :org and id = %(id)s;

-- name: insert_parts
insert into job_part (job_id, run_id, part, content, content_hash)
values %(rows)s;

-- name: insert_documents
insert into document (id, run_id, stage_slug, step_key, job_id, document_key, model, lineage,
                      reviewer, version, content, content_hash, created_at)
values %(rows)s;

-- name: copy_documents
-- Insert copies of another run's documents, with their texts.
insert into document (org_id, id, run_id, stage_slug, step_key, job_id, document_key, model, lineage,
                      reviewer, version, content, content_hash, created_at, copied_from)
select d.org_id, n.id, %(run_id)s::uuid, d.stage_slug, d.step_key, n.job_id, d.document_key, d.model,
       d.lineage, d.reviewer, 1, d.content, d.content_hash, %(now)s::timestamptz, d.id
  from json_to_recordset(%(items)s::json) as n (id uuid, job_id uuid, copied_from uuid)
  join document d on d.org_id = :org and d.id = n.copied_from;

-- name: check_copies
-- The division by zero aborts the transaction if a document was not copied because its original no
-- longer exists.
select 1 / (case when count(*) = %(count)s then 1 else 0 end)
  from document
 where org_id = :org and id = any (%(ids)s);

-- name: insert_rendered
insert into rendered_document (id, run_id, document_id, job_id, markdown, html, content_hash,
                               created_at)
values %(rows)s;

-- name: insert_late
insert into late_result (id, run_id, job_id, attempt, content, content_hash, created_at, created_by)
values %(rows)s;

-- name: insert_usage
insert into usage (id, run_id, job_id, attempt, input_tokens, output_tokens, cost_micros, model,
                   at, by, session)
values (%(id)s, %(run_id)s, %(job_id)s, %(attempt)s, %(input_tokens)s, %(output_tokens)s,
        %(cost_micros)s, %(model)s, %(at)s, %(by)s, %(session)s);
