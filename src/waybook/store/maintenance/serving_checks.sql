-- name: is_migrated
select to_regclass('public.schema_migration') is not null;

-- name: applied
select number, digest, oldest_compatible from schema_migration order by number;

-- name: name_of_user
select quote_ident(session_user);

-- name: is_exempt
select rolsuper or rolbypassrls from pg_roles where rolname = current_user;
