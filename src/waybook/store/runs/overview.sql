-- name: runs_in_trouble
-- Return the open runs with jobs that failed permanently, latest activity first, each with the number
-- of all such runs and with its stages that have failed jobs, each with the job that failed last.
select :row_of_run, null::bigint as documents_available, null::timestamptz as awaiting_since,
       r.in_trouble,
       (select json_agg(json_build_array(j.stage_slug, j.step_key, j.model, j.attempt, j.error,
                                         j.held_by, j.completed_at, j.out_of_retries, j.jobs)
                        order by j.stage_slug)
          from (select distinct on (j.stage_slug)
                       j.stage_slug, j.step_key, j.model, j.attempt,
                       left(coalesce(j.error, ''), %(wide)s) as error, j.held_by, j.completed_at,
                       j.status = 'retry_loop_failed' as out_of_retries,
                       count(*) over (partition by j.stage_slug) as jobs
                  from job j
                 where j.org_id = :org and j.run_id = r.id
                   and j.status in ('failed', 'retry_loop_failed')
                   and j.job_type <> 'RENDER'
                 order by j.stage_slug, j.completed_at desc, j.id) j) as failures
  from (select r.*, count(*) over () as in_trouble
          from (select r.id, r.name, r.dag_slug, r.dag_version, r.updated_at, r.completed_at, r.canceled_at
                  from (select distinct f.run_id
                          from (select s.run_id
                                  from stage_step s
                                 where s.org_id = :org
                                   and s.failed > 0
                                   and s.closed_at is null
                                 order by s.run_id desc
                                 limit %(newest)s) f) f
                 cross join lateral (select r.*
                                       from run r
                                      where r.org_id = :org and r.id = f.run_id
                                     offset 0) r
                 where r.completed_at is null
                   and r.canceled_at is null) r
         order by r.updated_at desc, r.id desc
         limit %(most)s) r
  join run_brief b on b.org_id = :org and b.run_id = r.id
 order by r.updated_at desc, r.id desc;

-- name: runs_running
-- Return the open runs on which agents can work, latest activity first, each with the number of all
-- such runs and with the holders of its jobs.
select :row_of_run, null::bigint as documents_available, null::timestamptz as awaiting_since,
       r.running,
       (select json_agg(distinct j.held_by)
          from job j
         where j.org_id = :org and j.run_id = r.id
           and j.status = 'processing' and j.held_by is not null) as holders
  from (select r.*, count(*) over () as running
          from (select r.id, r.name, r.dag_slug, r.dag_version, r.updated_at, r.completed_at, r.canceled_at,
                       r.awaiting_since
                  from run r
                 where r.org_id = :org
                   and r.completed_at is null
                   and r.canceled_at is null
                 order by r.id desc
                 limit %(newest)s) r
         where r.awaiting_since is null
               and not exists (select from stage_step s
                                where s.org_id = :org
                                  and s.run_id = r.id and s.failed > 0 and s.closed_at is null)
         order by r.updated_at desc, r.id desc
         limit %(most)s) r
  join run_brief b on b.org_id = :org and b.run_id = r.id
 order by r.updated_at desc, r.id desc;

-- name: runs_finished
-- Return the runs that were completed or canceled since a given time, latest first, each with the
-- number of all such runs.
select r.id::text, r.name, r.completed_at is null as canceled, r.canceled_by, r.cancel_reason,
       b.created_at, r.ended_at,
       (select count(*)
          from :runs_ended_since) as finished
  from (select r.*
          from :runs_ended_since
         order by r.ended_at desc, r.id desc
         limit %(most)s) r
  join run_brief b on b.org_id = :org and b.run_id = r.id
 order by r.ended_at desc, r.id desc;
