-- name: run_totals
-- Return the number of runs in each section of the overview, counted up to a limit.
select (select count(*)
          from :failed_runs) as in_trouble,
       (select count(*)
          from :newest_open_runs
         where :run_is_running) as running,
       (select count(*)
          from :runs_ended_since) as finished;

-- name: runs_in_trouble
-- Return the open runs with jobs that failed permanently, latest activity first.
select :row_of_run, null::bigint as documents_available, null::timestamptz as awaiting_since
  from (select r.*
          from :failed_runs
         order by r.updated_at desc, r.id desc
         limit %(most)s) r
  join run_brief b on b.org_id = :org and b.run_id = r.id
 order by r.updated_at desc, r.id desc;

-- name: run_failures
-- Return the stages of these runs that have failed jobs, each with the job that failed last.
select distinct on (r.updated_at, r.id, j.stage_slug)
       r.id::text as run_id, j.stage_slug as stage, j.step_key, j.model, j.attempt,
       left(coalesce(j.error, ''), %(wide)s) as error, j.held_by, j.completed_at as at,
       j.status = 'retry_loop_failed' as out_of_retries,
       count(*) over (partition by r.id, j.stage_slug) as jobs
  from (select r.id, r.updated_at
          from :failed_runs
         order by r.updated_at desc, r.id desc
         limit %(most)s) r
  join job j on j.org_id = :org and j.run_id = r.id and j.status in ('failed', 'retry_loop_failed')
 where j.job_type <> 'RENDER'
 order by r.updated_at desc, r.id desc, j.stage_slug, j.completed_at desc, j.id;

-- name: runs_running
-- Return the open runs on which agents can work, latest activity first.
select :row_of_run, null::bigint as documents_available, null::timestamptz as awaiting_since
  from (select r.*
          from :newest_open_runs
         where :run_is_running
         order by r.updated_at desc, r.id desc
         limit %(most)s) r
  join run_brief b on b.org_id = :org and b.run_id = r.id
 order by r.updated_at desc, r.id desc;

-- name: run_holders
-- Return the holders of jobs of the running runs.
select distinct r.id::text as run_id, j.held_by
  from (select r.id
          from :newest_open_runs
         where :run_is_running
         order by r.updated_at desc, r.id desc
         limit %(most)s) r
  join job j on j.org_id = :org and j.run_id = r.id and j.status = 'processing'
 where j.held_by is not null
 order by 1, 2;

-- name: runs_finished
-- Return the runs that were completed or canceled since a given time, latest first.
select r.id::text, r.name, r.completed_at is null as canceled, r.canceled_by, r.cancel_reason,
       b.created_at, r.ended_at
  from (select r.*
          from :runs_ended_since
         order by r.ended_at desc, r.id desc
         limit %(most)s) r
  join run_brief b on b.org_id = :org and b.run_id = r.id
 order by r.ended_at desc, r.id desc;
