-- name: notify_change
-- Notify every listening process. NOTIFY writes to no table, so its commit need not wait for the
-- disk.
select pg_notify('waybook_news', %(payload)s);

-- name: changed
-- Return the plans and runs that changed in the last `seconds`. If the limit is reached, the caller
-- assumes that everything has changed.
select subject, subject_id::text, max(seq)
  from audit_entry
 where org_id = :org
   and at > (select app_now() - make_interval(secs => %(seconds)s))
   and subject in ('plan', 'run')
 group by subject, subject_id
 limit %(most)s;

-- name: process
-- Return the process id of the PostgreSQL backend that runs this query. Behind a pooler, it may
-- differ from the id that was reported when the connection was opened.
select pg_backend_pid();
