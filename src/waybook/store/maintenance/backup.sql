-- The database owner runs these queries in one snapshot. The driver quotes the names in braces.

-- name: lock_table
-- Block DROP and ALTER until the backup ends. Reads and writes continue.
lock table {table} in access share mode;

-- name: one_snapshot_per_node
-- Read each node of a Citus cluster over one connection, and so in one snapshot. Other servers
-- ignore this setting.
set local citus.max_adaptive_executor_pool_size = 1;

-- name: about
-- Return the database name, the server version, and the time of the backup's snapshot.
select current_database() as database, current_setting('server_version_num')::integer as version,
       clock_timestamp() as at;

-- name: migrations
select number, name, digest from schema_migration order by number;

-- name: copy_rows
copy (select {columns} from {table} where org_id = app_org()) to stdout;

-- name: tables
-- Return all tables with rows of orgs, and their columns. Referenced tables come first.
with recursive ours as (
  select c.oid, c.relname
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped
   where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
     and not c.relispartition
),
below as (
  select o.oid, o.relname, 0 as depth from ours o
   union
  select o.oid, o.relname, b.depth + 1
    from below b
    join pg_constraint k on k.confrelid = b.oid and k.contype = 'f' and k.conrelid <> k.confrelid
    join ours o on o.oid = k.conrelid
   where b.depth < 100
),
ordered as (
  select oid, relname, max(depth) as depth from below group by oid, relname
)
select t.relname::text as name,
       (select array_agg(a.attname::text order by a.attnum)
          from pg_attribute a
         where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '')
       as columns,
       exists (select from pg_attribute a
                 join pg_type y on y.oid = a.atttypid
                 join pg_depend d on d.classid = 'pg_type'::regclass
                                 and d.objid in (y.oid, y.typelem) and d.deptype = 'e'
                where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped)
       as has_extension_type,
       (select coalesce(sum(greatest(c.reltuples, s.n_live_tup, 0)), 0)::bigint
          from pg_class c
          left join pg_inherits i on i.inhrelid = c.oid
          left join pg_stat_all_tables s on s.relid = c.oid
         where (c.oid = t.oid or i.inhparent = t.oid) and c.relkind = 'r') as estimated_rows
  from ordered t
 order by t.depth, t.relname;

-- name: orgs
select org_id from org union select org_id from erasure order by org_id;

-- name: enter_org
-- Restrict the rest of the transaction to this org. A Citus cluster passes `set local` on to its
-- nodes, but not `set_config`.
set local app.org_id to {value};

-- name: see_directory
-- Make the list of all orgs visible or hidden in this transaction.
set local app.sweep to {value};

-- name: same_text
-- Fix the text formats of values, independent of the server's settings, and allow long statements.
set local timezone = 'UTC';
set local datestyle = 'ISO, YMD';
set local intervalstyle = 'postgres';
set local bytea_output = 'hex';
set local extra_float_digits = 1;
set local client_encoding = 'UTF8';
set local statement_timeout = 0;
set local idle_in_transaction_session_timeout = 0;
set local lock_timeout = '30s';
