-- name: held_jobs
-- Return the jobs of a run that are in progress, up to a limit.
select :row_of_job
  from :jobs_in_progress
 limit %(most)s;

-- name: free_jobs
-- Return the first claimable jobs of a run, without a lock.
select :row_of_job
  from :jobs_to_claim
 limit %(most)s;

-- name: free_jobs_for_model
-- Return the first claimable jobs of a run that are assigned to this model, without a lock.
select :row_of_job
  from :jobs_to_claim_for_model
 limit %(most)s;
