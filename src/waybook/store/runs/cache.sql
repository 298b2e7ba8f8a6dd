-- name: held_jobs
-- Return the jobs of a run that are in progress, up to a limit.
select :row_of_job
  from job j
 where j.run_id = %(run_id)s
   and j.completed_at is null
   and j.job_type <> 'RENDER'
   and j.status = 'processing'
 order by j.started_at, j.id
 limit %(most)s;

-- name: free_jobs
-- Return the first claimable jobs of a run, without a lock.
select :row_of_job
  from job j
 where j.run_id = %(run_id)s
   and :job_is_claimable
 order by j.rank, j.id
 limit %(most)s;

-- name: free_jobs_for_model
-- Return the first claimable jobs of a run that are assigned to this model, without a lock.
select :row_of_job
  from job j
 where j.run_id = %(run_id)s
   and j.model = %(model)s
   and :job_is_claimable
 order by j.rank, j.id
 limit %(most)s;
