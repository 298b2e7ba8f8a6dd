-- name: entries
select :row_of_entry
  from audit_entry
 where org_id = :org and subject_id = %(subject_id)s and seq > %(since)s::bigint
 order by seq
 limit %(most)s;

-- name: tail
select :row_of_entry
  from audit_entry
 where org_id = :org and subject_id = %(subject_id)s
 order by seq desc
 limit %(most)s;

-- name: entry
select :row_of_entry
  from audit_entry
 where org_id = :org and subject_id = %(subject_id)s and seq = %(seq)s;

-- name: subjects
select 'plan' as kind, id::text from plan where org_id = :org
 union all
select 'run', id::text from run where org_id = :org
 union all
select 'skill_execution', id::text from skill_execution where org_id = :org
 union all
select 'artifact', id::text from artifact where org_id = :org and plan_id is null
 union all
select 'org', o.org_id::text
  from org o
 where o.org_id = :org
   and (o.audit_seq > 0
        or exists (select from org_user where org_id = :org)
        or exists (select from audit_entry e where e.org_id = :org and e.subject_id = o.org_id::text));

-- name: head
-- Return the number and hash of the last audit entry that the row of the plan, run or other subject
-- records, and the number of the last entry in the audit.
select h.audit_seq as seq, h.audit_hash as hash,
       (select max(e.seq) from audit_entry e where e.org_id = :org and e.subject_id = h.id) as last
  from (select id, audit_seq, audit_hash from plan where org_id = :org
         union all
        select id, audit_seq, audit_hash from run where org_id = :org
         union all
        select id::text, audit_seq, audit_hash from skill_execution
         where org_id = :org and id = :subject_as_uuid
         union all
        select id::text, audit_seq, audit_hash from artifact
         where org_id = :org and id = :subject_as_uuid and plan_id is null
         union all
        select org_id::text, audit_seq, coalesce(audit_hash, '') from org where org_id = :org) h
 where h.id = %(subject_id)s;

-- name: chain
-- Return the entries of an audit chain with numbers above `since` and up to `until`, oldest first.
select :row_of_entry
  from audit_entry
 where org_id = :org and subject_id = %(subject_id)s and seq > %(since)s and seq <= %(until)s
 order by seq
 limit %(most)s;

-- name: orphans
-- Return plans, runs and other subjects of audit chains that have audit entries but no row.
select distinct e.subject as kind, e.subject_id::text as id
  from audit_entry e
 where e.org_id = :org
   and not exists (select from plan p where p.org_id = :org
                                        and p.id = e.subject_id)
   and not exists (select from run r where r.org_id = :org
                                       and r.id = e.subject_id)
   and not exists (select from skill_execution x where x.org_id = :org
                                                   and x.id::text = e.subject_id)
   and not exists (select from artifact a where a.org_id = :org
                                            and a.id::text = e.subject_id and a.plan_id is null)
   and not exists (select from org o where o.org_id = :org and o.org_id::text = e.subject_id);

-- name: until
-- Return the length of an audit chain at a given time.
select coalesce(max(seq), 0) as seq
  from audit_entry
 where org_id = :org and subject_id = %(subject_id)s and at <= %(at)s;

-- name: page
-- Return a page of the audit entries before a given entry, newest first.
select :row_of_entry
  from audit_entry e
 where e.org_id = :org
   and :entry_is_asked_for
   and :next_entries;

-- name: page_of_actor
-- As `page`, for one actor. An index serves this query.
select :row_of_entry
  from audit_entry e
 where e.org_id = :org
   and actor = %(actor)s::text
   and :entry_is_asked_for
   and :next_entries;

-- name: page_of_rare_event
-- As `page`, for one event except `step_started` and `step_completed`. An index serves this query.
select :row_of_entry
  from audit_entry e
 where e.org_id = :org
   and event = %(event)s::text
   and event not in ('step_started', 'step_completed')
   and :entry_is_asked_for
   and :next_entries;

-- name: page_of_other_channel
-- As `page`, for one channel other than MCP. An index serves this query.
select :row_of_entry
  from audit_entry e
 where e.org_id = :org
   and channel = %(channel)s::text
   and channel <> 'mcp'
   and :entry_is_asked_for
   and :next_entries;

-- name: page_of_agent
-- As `page`, for one user and session. An index serves this query.
select :row_of_entry
  from audit_entry e
 where e.org_id = :org
   and actor = %(actor)s::text
   and :session_of_entry = %(session)s::text
   and :entry_is_asked_for
   and :next_entries;

-- name: agent_entries
-- Return a page of an agent's audit entries in a period, newest first. Changes that the user made
-- on pages or on the command line are left out.
select :row_of_entry
  from audit_entry e
 where e.org_id = :org
   and actor = %(name)s
   and :session_of_entry = %(session)s::text
   and channel = 'mcp'
   and :next_entries;

-- name: page_of
-- Return a page of the audit entries of one plan or run, newest first. `is true` keeps the planner
-- from using the index on the time, which would scan the entries of the whole org.
select :row_of_entry
  from audit_entry e
 where e.org_id = :org
   and subject_id = %(subject_id)s
   and seq < %(seq)s::integer
   and (at >= %(since)s::timestamptz) is true
   and (at < %(at)s::timestamptz) is true
   and :entry_is_asked_for
 order by seq desc
 limit %(most)s;

-- name: insert_audit
insert into audit_entry (subject_id, subject, seq, at, event, actor, channel, session, details, hash,
                         brief)
values %(merged_rows)s;
