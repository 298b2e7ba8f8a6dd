-- What only a superuser can prepare in the database `waybook`. May be repeated.

revoke create on schema public from public;

revoke all on database waybook from public;

grant connect on database waybook to waybook_app;

-- Under row-level security an index serves an operator only if its function is known not to
-- leak its arguments. These two only compare what they are given and raise nothing about it.
alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof;

alter function pg_catalog.jsonb_contains(jsonb, jsonb) leakproof;
