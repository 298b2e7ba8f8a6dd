-- The database owner runs these queries in one transaction. The driver quotes the names in braces.

-- name: lock_table
-- Block other writers and a second restore.
lock table {table} in share row exclusive mode;

-- name: count_rows
select count(*) from {table} where org_id = app_org();

-- name: make_incoming
-- COPY cannot write to a table with active row-level security, so the incoming rows get a temporary
-- table.
create temporary table {incoming} on commit drop as
select {columns} from {table} with no data;

-- name: copy_rows
copy {incoming} ({columns}) from stdin;

-- name: remove_org_row
-- Delete the row of the local org that the migrations inserted, because the backup contains its own
-- row.
delete from org where org_id = app_org();

-- name: has_foreign_rows
-- Return whether there are incoming rows of another org. Row-level security would reject them, but
-- some owners are exempt.
select exists (select from {incoming} where org_id is distinct from app_org());

-- name: insert_rows
insert into {table} ({columns}) select {columns} from {incoming};

-- name: empty_incoming
truncate {incoming};

-- name: analyze
analyze {table};
