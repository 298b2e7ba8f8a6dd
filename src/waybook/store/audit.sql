-- name: entries
-- A subject's entries from one number on, oldest first; the details as the very text.
select subject_id::text, subject, seq, at, event, actor, channel, session, details::text, hash
  from audit_entry
 where subject_id = %(subject_id)s and seq > %(since)s
 order by seq
 limit %(most)s;

-- name: tail
-- A subject's last entries, newest first.
select subject_id::text, subject, seq, at, event, actor, channel, session, details::text, hash
  from audit_entry
 where subject_id = %(subject_id)s
 order by seq desc
 limit %(most)s;

-- name: recent
-- The last entries of the org, newest first.
select subject_id::text, subject, seq, at, event, actor, channel, session, details::text, hash
  from audit_entry
 order by at desc, subject_id desc, seq desc
 limit %(most)s;

-- name: heads
-- Where each plan's chain should end, to see that no tail was cut off.
select 'plan', id::text, audit_seq, audit_hash from plan
 union all
select 'skill_execution', id::text, audit_seq, audit_hash from skill_execution;
