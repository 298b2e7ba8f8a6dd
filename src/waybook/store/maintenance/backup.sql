-- The database owner runs these in one snapshot. The driver quotes the names in braces.

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
