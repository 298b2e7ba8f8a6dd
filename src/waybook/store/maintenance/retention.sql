-- The database owner runs these queries. The driver fills in the braces, as in erasure.sql.

-- name: only_one
-- Return whether this process got the retention lock. Other processes skip the work.
select pg_try_advisory_xact_lock(718291004528);

-- name: time_now
select app_now();

-- name: partitions
-- Return the partitions of the call log. The name of a weekly partition contains the first day of
-- its week.
select c.relname
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
 where i.inhparent = 'mcp_tool_call_log'::regclass
 order by c.relname;

-- name: make_partition
create table {table} partition of mcp_tool_call_log for values from ({since}) to ({until});

-- name: enable_policies
alter table {table} enable row level security;

-- name: force_policies
alter table {table} force row level security;

-- name: create_policy
create policy tenant on {table} using (org_id = app_org()) with check (org_id = app_org());

-- name: drop_partition
drop table {table};

-- name: orgs
select org_id from org order by org_id;

-- name: erased_orgs
-- Return the orgs that were erased in the last 7 days. Calls that were running then may have been
-- logged after the erasure.
select distinct e.org_id from erasure e
 where e.at > app_now() - interval '7 days'
   and not exists (select from org o where o.org_id = e.org_id);

-- name: old_calls
-- Delete old calls from the default partition: those logged before their week had a partition.
delete from mcp_tool_call_log_default
 where org_id = %(org_id)s
   and (at, id) in (select at, id from mcp_tool_call_log_default
                     where org_id = %(org_id)s and at < %(before)s limit %(most)s)
returning org_id;

-- name: old_agents
-- Delete agents whose last call is older than the calls that the call log keeps.
delete from agent
 where org_id = %(org_id)s
   and (name, session) in (select name, session from agent
                            where org_id = %(org_id)s and last_seen_at < %(before)s limit %(most)s)
returning org_id;

-- name: old_answers
delete from idempotency_answer
 where org_id = %(org_id)s
   and (tool, key) in (select tool, key from idempotency_answer
                        where org_id = %(org_id)s and created_at < %(before)s limit %(most)s)
returning org_id;

-- name: old_sessions
-- Delete web sessions that have ended, expired, or been idle for too long.
delete from web_session
 where org_id = %(org_id)s
   and id in (select id from web_session
               where org_id = %(org_id)s
                 and (ended_at < %(before)s
                      or expires_at < %(before)s
                      or last_seen_at < %(before)s - :idle_session)
               limit %(most)s)
returning org_id;

-- name: old_deletions
-- A process that has not read these deletions for a day reloads all embeddings instead.
delete from passage_deletion
 where org_id = %(org_id)s
   and (deleted, subject_id, part) in (select deleted, subject_id, part from passage_deletion
                                        where org_id = %(org_id)s and deleted_at < %(before)s
                                        limit %(most)s)
returning org_id;

-- name: archived_plans
-- Lock and return closed plans that have not changed since a given time.
select id::text, audit_seq, audit_hash from plan
 where org_id = %(org_id)s and completed_at is not null and updated_at < %(before)s
   and id > %(after)s
 order by id
 limit %(most)s
   for update skip locked;

-- name: archived_runs
select id::text, audit_seq, audit_hash from run
 where org_id = %(org_id)s and coalesce(completed_at, canceled_at) is not null
   and updated_at < %(before)s and id > %(after)s
 order by id
 limit %(most)s
   for update skip locked;

-- name: unshared_sources
-- Return the sources that only these plans cite.
select distinct l.source_id
  from artifact_source l
  join artifact a on a.org_id = l.org_id and a.id = l.artifact_id
 where l.org_id = %(org_id)s and a.plan_id = any (%(ids)s)
   and not exists (select from artifact_source o
                     join artifact b on b.org_id = o.org_id and b.id = o.artifact_id
                    where o.org_id = l.org_id and o.source_id = l.source_id
                      and (b.plan_id is null or b.plan_id <> all (%(ids)s)));
