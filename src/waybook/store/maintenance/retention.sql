-- Run by the owner; the braces are filled as in erasure.sql.

-- name: only_one
-- One process keeps house, the others leave it to that one.
select pg_try_advisory_xact_lock(718291004528);

-- name: time_now
select app_now();

-- name: partitions
-- The parts of the log of calls, each with the first day of its week in its name.
select c.relname
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
 where i.inhparent = 'mcp_tool_call_log'::regclass
 order by c.relname;

-- name: make_partition
create table {table} partition of mcp_tool_call_log for values from ({since}) to ({until});

-- name: guard_partition
alter table {table} enable row level security;
alter table {table} force row level security;
create policy tenant on {table} using (org_id = app_org()) with check (org_id = app_org());

-- name: count_calls_of_week
-- Calls of one org that were logged before the partition of their week was there.
select count(*)
  from (select from mcp_tool_call_log_default
         where org_id = %(org_id)s and at >= %(since)s and at < %(until)s
         limit %(most)s) counted;

-- name: lock_calls
lock table mcp_tool_call_log in access exclusive mode;

-- name: make_week
-- A table that becomes a partition once the calls of its week are in it.
create table {table} (like mcp_tool_call_log including defaults including indexes);

-- name: open_week
-- Where the owner steps down to change rows, it may write here too.
do $$
begin
  if exists (select from pg_roles where rolname = 'waybook_maintenance') then
    grant select, insert, update, delete on {table} to waybook_maintenance;
  end if;
end $$;

-- name: copy_calls
insert into {table}
select * from mcp_tool_call_log_default
 where org_id = %(org_id)s and at >= %(since)s and at < %(until)s;

-- name: delete_copied_calls
delete from mcp_tool_call_log_default
 where org_id = %(org_id)s and at >= %(since)s and at < %(until)s
returning org_id;

-- name: attach_partition
alter table mcp_tool_call_log attach partition {table} for values from ({since}) to ({until});

-- name: drop_partition
drop table {table};

-- name: orgs
select org_id from org order by org_id;

-- name: erased_orgs
-- Orgs that were erased a short while ago: a call that was under way may have been logged since.
select distinct e.org_id from erasure e
 where e.at > app_now() - interval '7 days'
   and not exists (select from org o where o.org_id = e.org_id);

-- name: old_calls
-- Calls that no partition was there for when they were logged.
delete from mcp_tool_call_log_default
 where org_id = %(org_id)s
   and (at, id) in (select at, id from mcp_tool_call_log_default
                     where org_id = %(org_id)s and at < %(before)s limit %(most)s)
returning org_id;

-- name: old_answers
delete from idempotency_answer
 where org_id = %(org_id)s
   and (tool, key) in (select tool, key from idempotency_answer
                        where org_id = %(org_id)s and created_at < %(before)s limit %(most)s)
returning org_id;

-- name: old_sessions
-- Browsers that count no more: let go, too old, or not seen for as long as a session may be idle.
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
-- Processes that did not look for a day read all embeddings again, and need none of these.
delete from passage_deletion
 where org_id = %(org_id)s
   and (deleted, subject_id, part) in (select deleted, subject_id, part from passage_deletion
                                        where org_id = %(org_id)s and deleted_at < %(before)s
                                        limit %(most)s)
returning org_id;

-- name: archived_plans
-- Plans that are over and were not touched since, ours until we are done with them.
select id::text, audit_seq, audit_hash from plan
 where org_id = %(org_id)s and completed_at is not null and updated_at < %(before)s
   and id > %(after)s
 order by id
 limit %(most)s
   for update skip locked;

-- name: archived_runs
select id::text, audit_seq, audit_hash from run
 where org_id = %(org_id)s and completed_at is not null and updated_at < %(before)s
   and id > %(after)s
 order by id
 limit %(most)s
   for update skip locked;

-- name: unshared_sources
-- The sources that these plans name, and nobody else.
select distinct l.source_id
  from artifact_source l
  join artifact a on a.org_id = l.org_id and a.id = l.artifact_id
 where l.org_id = %(org_id)s and a.plan_id = any (%(ids)s)
   and not exists (select from artifact_source o
                     join artifact b on b.org_id = o.org_id and b.id = o.artifact_id
                    where o.org_id = l.org_id and o.source_id = l.source_id
                      and (b.plan_id is null or b.plan_id <> all (%(ids)s)));
