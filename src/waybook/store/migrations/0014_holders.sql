-- The holder of a job is a user and a session: an index by the session alone would go through the
-- jobs of every user whose agents call their session the same.

drop index job_held;
create index job_held on job (org_id, held_by, held_session, run_id) where status = 'processing';
