-- The superuser runs these statements in the database `waybook`. They can run more than once.

revoke create on schema public from public;

revoke all on database waybook from public;

grant connect on database waybook to waybook_app;

-- Under row-level security, an index serves an operator only if the operator's function is
-- leakproof. These two functions only compare their arguments and reveal nothing in errors.
alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof;

alter function pg_catalog.jsonb_contains(jsonb, jsonb) leakproof;
