-- The superuser runs these statements in the database `waybook`. They can run more than once.

-- Earlier versions stored vectors in an extension that may crash the server on this processor.
-- Dropping the table and the extension runs no code of the extension.
drop table if exists public.passage_vector;

do $$ begin drop extension if exists vector; exception when dependent_objects_still_exist then null; end $$;

revoke create on schema public from public;

revoke all on database waybook from public;

grant connect on database waybook to waybook_app;

-- Under row-level security, an index serves an operator only if the operator's function is
-- leakproof. These two functions only compare their arguments and reveal nothing in errors.
alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof;

alter function pg_catalog.jsonb_contains(jsonb, jsonb) leakproof;
