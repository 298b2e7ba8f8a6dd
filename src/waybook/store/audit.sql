-- name: entries
-- A subject's entries from one number on, oldest first; the details as the very text.
select subject_id::text, subject, seq, at, event, actor, channel, session, details::text, hash
  from audit_entry
 where subject_id = %(subject_id)s and seq > %(since)s::bigint
 order by seq
 limit %(most)s;

-- name: tail
-- A subject's last entries, newest first.
select subject_id::text, subject, seq, at, event, actor, channel, session, details::text, hash
  from audit_entry
 where subject_id = %(subject_id)s
 order by seq desc
 limit %(most)s;

-- name: entry
-- One entry of a subject.
select subject_id::text, subject, seq, at, event, actor, channel, session, details::text, hash
  from audit_entry
 where subject_id = %(subject_id)s and seq = %(seq)s;

-- name: recent
-- The last entries, of one plan or of the whole org, newest first. Those of users and tokens are
-- for whoever looks after these.
select subject_id::text, subject, seq, at, event, actor, channel, session, details::text, hash
  from audit_entry
 where (%(subject_id)s::uuid is null or subject_id = %(subject_id)s::uuid)
   and (%(since)s::timestamptz is null or at >= %(since)s::timestamptz)
   and (%(members)s::boolean or subject <> 'org')
 order by at desc, subject_id desc, seq desc
 limit %(most)s;

-- name: subjects
-- Everything that has a chain.
select 'plan' as kind, id::text from plan
 union all
select 'run', id::text from run
 union all
select 'skill_execution', id::text from skill_execution
 union all
select 'artifact', id::text from artifact where plan_id is null
 union all
select 'org', o.org_id::text
  from org o
 where o.org_id = app_org()
   and (o.audit_seq > 0
        or exists (select from org_user)
        or exists (select from audit_entry e where e.subject_id = o.org_id));

-- name: head
-- Where one chain should end, and where it does.
select h.audit_seq as seq, h.audit_hash as hash,
       (select max(e.seq) from audit_entry e where e.subject_id = h.id) as last
  from (select id, audit_seq, audit_hash from plan
         union all
        select id, audit_seq, audit_hash from run
         union all
        select id, audit_seq, audit_hash from skill_execution
         union all
        select id, audit_seq, audit_hash from artifact where plan_id is null
         union all
        select org_id, audit_seq, coalesce(audit_hash, '') from org where org_id = app_org()) h
 where h.id = %(subject_id)s;

-- name: chain
-- A part of a chain that no longer changes, oldest first; the details as the very text.
select subject_id::text, subject, seq, at, event, actor, channel, session, details::text, hash
  from audit_entry
 where subject_id = %(subject_id)s and seq > %(since)s and seq <= %(until)s
 order by seq
 limit %(most)s;

-- name: orphans
-- Subjects the audit tells of that are not there.
select distinct e.subject as kind, e.subject_id::text as id
  from audit_entry e
 where not exists (select from plan p where p.id = e.subject_id)
   and not exists (select from run r where r.id = e.subject_id)
   and not exists (select from skill_execution x where x.id = e.subject_id)
   and not exists (select from artifact a where a.id = e.subject_id and a.plan_id is null)
   and not exists (select from org o where o.org_id = app_org() and o.org_id = e.subject_id);

-- name: until
-- How long a chain was at a time.
select coalesce(max(seq), 0) as seq
  from audit_entry
 where subject_id = %(subject_id)s and at <= %(at)s;

-- name: page
-- Entries before one of them, newest first, of those that are asked for. Bounds are always given,
-- so that the index by time serves them.
select subject_id::text, subject, seq, at, event, actor, channel, session, details::text, hash
  from audit_entry
 where at >= %(since)s::timestamptz
   and (at, subject_id, seq) < (%(at)s::timestamptz, %(subject_id)s::uuid, %(seq)s::integer)
   and (%(event)s::text is null or event = %(event)s::text)
   and (%(actor)s::text is null or actor = %(actor)s::text)
   and (%(channel)s::text is null or channel = %(channel)s::text)
   and (%(members)s::boolean or subject <> 'org')
 order by at desc, subject_id desc, seq desc
 limit %(most)s;

-- name: page_of
-- The same of one plan or run, by its numbers. The times are put so that no index serves them:
-- that of the org's times would lead through everybody's entries.
select subject_id::text, subject, seq, at, event, actor, channel, session, details::text, hash
  from audit_entry
 where subject_id = %(subject_id)s
   and seq < %(seq)s::integer
   and (at >= %(since)s::timestamptz) is true
   and (at < %(at)s::timestamptz) is true
   and (%(event)s::text is null or event = %(event)s::text)
   and (%(actor)s::text is null or actor = %(actor)s::text)
   and (%(channel)s::text is null or channel = %(channel)s::text)
   and (%(members)s::boolean or subject <> 'org')
 order by seq desc
 limit %(most)s;

-- name: insert_audit
insert into audit_entry (subject_id, subject, seq, at, event, actor, channel, session, details, hash)
values %(rows)s;
