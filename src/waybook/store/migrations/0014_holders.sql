-- The holder of a job is a user and a session: an index by the session alone would go through the
-- jobs of every user whose agents call their session the same. The old one is dropped last, since
-- dropping takes a lock that claims of jobs wait for.

create index job_holder on job (org_id, held_by, held_session, run_id) where status = 'processing';

drop index job_held;
