-- Open the other steps of a run's wide stage, and complete the jobs, as their agents would
-- have: all but the last 1,000, with one document, one usage record and two audit entries each.
-- Every hundredth job fails instead.
set session_replication_role = replica;
insert into stage_step (org_id, run_id, stage_slug, step_key, total, done, failed, opened_at)
select s.org_id, s.run_id, s.stage_slug, 'wide-' || n, s.total, 0, 0, s.opened_at
  from stage_step s cross join generate_series(2, 10) n
 where s.run_id = ':run' and s.stage_slug = 'work';
insert into job (org_id, id, run_id, stage_slug, step_key, job_type, model, rank, unit, status,
                 attempt, tries, ready_at, part, counted)
select j.org_id, substr('23456789b', n - 1, 1) || substr(j.id, 2), j.run_id, j.stage_slug,
       'wide-' || n, j.job_type, j.model, j.rank + n, j.unit, j.status, 0, 0, j.ready_at, j.part,
       j.counted
  from job j cross join generate_series(2, 10) n
 where j.run_id = ':run' and j.stage_slug = 'work';
create temporary table worked as
select j.id, j.org_id, j.stage_slug, j.step_key, j.model, j.unit, n, n % 100 = 0 as failed,
       now() - interval '2 days' + n * interval '5 seconds' as began
  from (select j.*, row_number() over (order by j.rank, j.id) as n
          from job j where j.run_id = ':run' and j.stage_slug = 'work') j
 where n <= (select count(*) - 1000 from job where run_id = ':run' and stage_slug = 'work');
update job j
   set status = case when w.failed then 'failed' else 'completed' end, attempt = 1, tries = 1,
       held_by = 'ann', held_session = 'session-' || n % 16, started_at = w.began,
       seen_at = w.began, completed_at = w.began + interval '60 seconds',
       error = case when w.failed then 'The source did not answer.' end
  from worked w where j.id = w.id;
update stage_step s
   set done = (select count(*) from worked w where w.step_key = s.step_key and not failed),
       failed = (select count(*) from worked w where w.step_key = s.step_key and failed)
 where s.run_id = ':run' and s.stage_slug = 'work';
insert into document (org_id, id, run_id, stage_slug, step_key, job_id, document_key, model, lineage,
                      version, content, content_hash, created_at)
select org_id, gen_random_uuid(), ':run', stage_slug, step_key, id, step_key, model,
       coalesce(unit ->> 'lineage', '') || n, 1, repeat(md5(n::text), 10), md5(n::text),
       began + interval '60 seconds'
  from worked where not failed;
insert into usage (org_id, id, run_id, job_id, attempt, input_tokens, output_tokens, cost_micros,
                   model, at, by, session)
select org_id, gen_random_uuid(), ':run', id, 1, 1000 + n, 100, 1500 + n % 100, model,
       began + interval '60 seconds', 'ann', 'session-' || n % 16
  from worked where not failed;
insert into audit_entry (org_id, subject_id, seq, at, subject, event, actor, channel, session,
                         details, hash)
select org_id, ':run', 1000 + 2 * n + k, began + k * interval '60 seconds', 'run',
       case when k = 0 then 'step_started' when failed then 'step_failed' else 'step_completed' end,
       'ann', 'mcp', 'session-' || n % 16,
       json_build_object('jobId', id, 'stageSlug', stage_slug, 'stepKey', step_key, 'attempt', 1,
                         'changes', json_build_array(json_build_array(
                           'job', id, json_build_object('status', json_build_array('pending',
                           'processing'), 'held_by', json_build_array('ann'))))), '\x00'
  from worked cross join generate_series(0, 1) k;
set session_replication_role = origin;
drop table worked;
