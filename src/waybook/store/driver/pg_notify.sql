-- name: notify_change
-- Tell every process that listens. A row of its own in no table; it is not worth a wait for the disk.
select pg_notify('waybook_news', %(payload)s);

-- name: changed
-- The plans and runs that changed in the last while, by the index of the audit on the time, and
-- how far each has got; more than `most` are as good as all.
select subject, subject_id::text, max(seq)
  from audit_entry
 where at > (select app_now() - make_interval(secs => %(seconds)s))
   and subject in ('plan', 'run')
 group by subject, subject_id
 limit %(most)s;

-- name: process
-- Who is at the other end.
select pg_backend_pid();
