-- The database owner distributes the tables over the nodes of a Citus cluster with these queries.

-- name: has_citus
select exists (select from pg_extension where extname = 'citus');

-- name: tables_to_distribute
-- Return the table of orgs, and then the tables with rows of orgs. Partitions are distributed with
-- their parent table.
select c.relname::text
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped
 where c.relnamespace = 'public'::regnamespace
   and c.relkind in ('r', 'p')
   and not c.relispartition
 order by c.relname <> 'org', c.relname;

-- name: distributed_tables
-- Return the distributed tables and the tables that every node has. (Citus also lists local tables
-- with foreign keys.)
select logicalrelid::regclass::text
  from pg_dist_partition
 where partmethod = 'h' or repmodel = 't';

-- name: partitions
-- Each partition has its own row-level security.
select inhrelid::regclass::text from pg_inherits where inhparent = {table}::regclass;

-- name: foreign_keys
select c.relname::text, k.conname::text as name, pg_get_constraintdef(k.oid) as definition
  from pg_constraint k
  join pg_class c on c.oid = k.conrelid
 where k.contype = 'f'
   and k.conparentid = 0
   and c.relnamespace = 'public'::regnamespace
 order by c.relname, k.conname;

-- name: one_node_at_a_time
-- Use one connection to each node. Foreign keys to a table that every node has require this.
set local citus.multi_shard_modify_mode = 'sequential';

-- name: leave_new_tables_local
-- Keep Citus from converting a new table with a foreign key to the table of orgs to a "local table"
-- of the cluster, which could have no foreign key to a distributed table.
set local citus.enable_local_reference_table_foreign_keys = off;

-- name: drop_key
alter table {table} drop constraint {name};

-- name: add_key
alter table {table} add constraint {name} {definition};

-- name: exempt_owner
-- Allow the owner to copy rows of all orgs to the nodes. Row-level security would refuse this.
alter table {table} no force row level security;

-- name: confine_owner
-- Subject the owner to row-level security again, also on the nodes.
alter table {table} force row level security;

-- name: distribute_directory
select create_reference_table({table});

-- name: distribute_table
-- Store the rows of each org on one node, together with its rows in all other tables.
select create_distributed_table({table}, 'org_id');

-- name: maintenance_role_without_login
select rolname from pg_roles where rolname = 'waybook_maintenance' and not rolcanlogin;

-- name: let_maintenance_role_log_in
-- The coordinator logs in to the nodes as the role of the transaction, so the role needs `login`.
alter role waybook_maintenance login;

-- name: let_serving_role_log_in
-- The coordinator logs in to the nodes as the role of the transaction, so the role needs `login`.
alter role waybook_app login;

-- name: pass_settings_on
-- Make every new database session pass `set local` on to the nodes, so that they know the org.
alter database {database} set citus.propagate_set_commands = 'local';
