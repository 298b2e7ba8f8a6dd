-- The database owner runs these queries in one transaction for one org. The driver quotes the names
-- in braces. Every statement filters by org, because the owner may be exempt from row-level
-- security. Every deletion and update returns the org of each changed row, which is then checked.

-- name: find_org
-- The transaction must be able to see all orgs.
select org_id from org where slug = %(slug)s;

-- name: lock_org
-- Lock the org, so that no plan, run or workflow definition is created in it during the erasure.
select erasures, erasure_hash from org where org_id = %(org_id)s for update;

-- name: tables
-- Return all tables with rows of orgs. Each table comes before the tables that it references.
with recursive ours as (
  select c.oid, c.relname
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped
   where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
     and not c.relispartition and c.relname not in ('erasure', 'tombstone')
),
above as (
  select o.oid, o.relname, 0 as height from ours o
   union
  select o.oid, o.relname, b.height + 1
    from above b
    join pg_constraint k on k.conrelid = b.oid and k.contype = 'f' and k.confrelid <> k.conrelid
    join ours o on o.oid = k.confrelid
   where b.height < 100
)
select relname from above group by relname order by max(height), relname;

-- name: delete_rows
delete from {table} where org_id = %(org_id)s returning org_id;

-- name: lock_rows
-- Running transactions finish before this lock is granted, and later ones wait.
select count(*) from (select from {table} where org_id = %(org_id)s for update) locked;

-- name: ends
-- Return every audit chain of the org with its length and its last seal.
select 'plan' as subject, id::text as subject_id, audit_seq as entries, audit_hash as seal_before
  from plan where org_id = %(org_id)s
 union all
select 'run', id::text, audit_seq, audit_hash from run where org_id = %(org_id)s
 union all
select 'skill_execution', id::text, audit_seq, audit_hash from skill_execution
 where org_id = %(org_id)s
 union all
select 'artifact', id::text, audit_seq, audit_hash from artifact
 where org_id = %(org_id)s and plan_id is null
 union all
select 'org', org_id::text, audit_seq, audit_hash
  from org
 where org_id = %(org_id)s and audit_seq > 0;

-- name: upsert_local_org
insert into org (org_id, slug, erasures, erasure_hash)
values (%(org_id)s, 'local', %(number)s, %(hash)s);

-- name: record_chain_head
update org set erasures = %(number)s, erasure_hash = %(hash)s where org_id = %(org_id)s
returning org_id;

-- name: insert_erasure
insert into erasure (org_id, number, at, by, what, who, counts, hash)
values (%(org_id)s, %(number)s, %(at)s, %(by)s, %(what)s, %(who)s, %(counts)s, %(hash)s);

-- name: insert_tombstone
insert into tombstone (org_id, erasure, subject, subject_id, entries, seal_before, seal_after)
values (%(org_id)s, %(erasure)s, %(subject)s, %(subject_id)s, %(entries)s, %(seal_before)s,
        %(seal_after)s);

-- name: now
select app_now();

-- name: chain_entries
select :row_of_entry
  from audit_entry
 where org_id = %(org_id)s and subject_id = %(id)s
 order by seq;
