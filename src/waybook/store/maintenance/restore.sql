-- Run by the owner, in one transaction. The braces are filled with names from the catalog, quoted
-- by the driver.

-- name: lock_table
-- Blocks other writers, and a second restore.
lock table {table} in share row exclusive mode;

-- name: count_rows
select count(*) from {table} where org_id = app_org();

-- name: make_incoming
-- COPY does not write where row-level security holds; this has none, and goes with the transaction.
create temporary table {incoming} on commit drop as
select {columns} from {table} with no data;

-- name: copy_rows
copy {table} ({columns}) from stdin;

-- name: remove_org_row
-- The migrations made the local org's row; the backup has its own.
delete from org where org_id = app_org();

-- name: has_foreign_rows
-- Row-level security refuses them too, but it does not hold for every owner.
select exists (select from {incoming} where org_id is distinct from app_org());

-- name: insert_rows
insert into {table} ({columns}) select {columns} from {incoming};

-- name: empty_incoming
truncate {table};

-- name: analyze
analyze {table};
