-- name: insert_definition
insert into dag_definition (slug, version, name, body, body_hash, created_at, created_by)
values (%(slug)s, %(version)s, %(name)s, %(body)s, %(body_hash)s, %(now)s, %(by)s);

-- name: insert_run
-- A run without jobs is completed immediately, so `completed_at` may be set.
insert into run (:columns_of_run, awaiting_since) values (:values_of_run, %(awaiting_since)s);

-- name: insert_run_words
-- Insert index entries for the words of a new run's name.
insert into run_word (org_id, word, run_id)
select r.org_id, w.word, r.id
  from run r
 cross join lateral unnest(app_name_parts(r.name)) as w (word)
 where r.org_id = :org and r.id = %(id)s;

-- name: insert_run_brief
insert into run_brief (:columns_of_run_brief) values (:values_of_run_brief);

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
-- with the call's time. Otherwise all statements sent together with this one fail.
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
select :one_row_or_stale as updated, app_statement_time() as now from updated;

-- name: advance_unchanged_run
-- Lock a run and update its audit number and hash, under the same conditions as
-- `update_unchanged_run`. This is for calls that change only steps, jobs and documents.
with updated as (:advance_of_run)
select :one_row_or_stale as updated, app_statement_time() as now from updated;

-- name: advance_run_with_job
-- Update the run and one job. One statement for both updates costs less than two.
with updated as (:advance_of_run),
     job_update as (:update_of_job)
select :one_row_or_stale as updated, app_statement_time() as now from updated;

-- name: insert_stage
insert into stage_run (:columns_of_stage_run) values (:values_of_stage_run);

-- name: update_stage
update stage_run
   set completed_at = %(completed_at)s,
       feedback = %(feedback)s,
       feedback_at = %(feedback_at)s,
       feedback_by = %(feedback_by)s
 where org_id = :org and run_id = %(run_id)s and stage_slug = %(stage_slug)s;

-- name: insert_steps
insert into stage_step (:columns_of_stage_step)
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
insert into job (org_id, :columns_of_job)
select r.org_id, r.id, n.*
  from run r
 cross join json_to_recordset(%(jobs)s::json) as n (:types_of_job)
 where r.org_id = :org and r.id = %(run_id)s;

-- name: insert_job
-- This costs less than `insert_jobs` with a list of one job.
insert into job (:columns_of_job) values (:values_of_job);

-- name: update_job
:update_of_job;

-- name: touch_job
update job set seen_at = %(now)s where org_id = :org and id = %(id)s;

-- name: insert_parts
insert into job_part (:columns_of_job_part)
values %(rows)s;

-- name: insert_documents
insert into document (:columns_of_document)
values %(rows)s;

-- name: copy_documents
-- Insert copies of another run's documents, with their texts.
insert into document (org_id, id, run_id, stage_slug, step_key, job_id, document_key, model, lineage,
                      reviewer, version, content, content_hash, created_at, copied_from)
select d.org_id, n.id, %(run_id)s::text, d.stage_slug, d.step_key, n.job_id, d.document_key, d.model,
       d.lineage, d.reviewer, 1, d.content, d.content_hash, %(now)s::timestamptz, d.id
  from json_to_recordset(%(items)s::json) as n (id uuid, job_id text, copied_from uuid)
  join document d on d.org_id = :org and d.id = n.copied_from;

-- name: check_copies
-- Fail if a document was not copied because its original no longer exists.
select app_refuse_unless(count(*) = %(count)s, 'WB001')
  from document
 where org_id = :org and id = any (%(ids)s);

-- name: insert_rendered
insert into rendered_document (:columns_of_rendered_document)
values %(rows)s;

-- name: insert_late
insert into late_result (:columns_of_late_result)
values %(rows)s;

-- name: insert_usage
insert into usage (:columns_of_usage) values (:values_of_usage);
