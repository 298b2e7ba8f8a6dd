-- What only a superuser can prepare in the database `waybook`. May be repeated.

-- Earlier versions kept vectors in an extension whose build may not run on this processor, and
-- even a vacuum of its index would end the server. Dropping runs none of its code.
drop table if exists public.passage_vector;

do $$ begin drop extension if exists vector; exception when dependent_objects_still_exist then null; end $$;

revoke create on schema public from public;

revoke all on database waybook from public;

grant connect on database waybook to waybook_app;

-- Under row-level security an index serves an operator only if its function is known not to
-- leak its arguments. These two only compare what they are given and raise nothing about it.
alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof;

alter function pg_catalog.jsonb_contains(jsonb, jsonb) leakproof;
