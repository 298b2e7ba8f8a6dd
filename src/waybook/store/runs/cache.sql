-- name: held_jobs
select :row_of_job
  from :jobs_in_progress
 limit %(most)s;

-- name: free_jobs
select :row_of_job
  from :jobs_to_claim
 limit %(most)s;

-- name: free_jobs_for_model
select :row_of_job
  from :jobs_to_claim_for_model
 limit %(most)s;
