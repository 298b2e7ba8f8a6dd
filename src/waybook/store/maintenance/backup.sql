-- Run by the owner, in one snapshot. The braces are filled with names from the catalog, quoted by
-- the driver.

-- name: lock_table
-- Prevents DROP and ALTER until the backup ends; reads and writes go on.
lock table {table} in access share mode;

-- name: about
-- Where and when the snapshot is.
select current_database() as database, current_setting('server_version_num')::integer as version,
       clock_timestamp() as at;

-- name: migrations
select number, name, digest from schema_migration order by number;

-- name: copy_rows
copy (select {columns} from {table} where org_id = app_org()) to stdout;
