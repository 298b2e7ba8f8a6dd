-- Statements for the database `waybook` that require a superuser. Safe to run more than once.

-- Earlier versions stored vectors in an extension whose build may crash the server on this
-- processor. Dropping the table and the extension runs none of its code.
drop table if exists public.passage_vector;

do $$ begin drop extension if exists vector; exception when dependent_objects_still_exist then null; end $$;

revoke create on schema public from public;

revoke all on database waybook from public;

grant connect on database waybook to waybook_app;

-- Under row-level security, an index can serve an operator only if the operator's function is
-- leakproof. These two functions only compare their arguments and reveal nothing in errors.
alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof;

alter function pg_catalog.jsonb_contains(jsonb, jsonb) leakproof;
