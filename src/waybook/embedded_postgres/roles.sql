-- The two roles Waybook works as. Neither is a superuser, and the second owns nothing.
-- May be repeated, and may be run on any server by whoever may create roles; give each role a
-- password afterwards, and make the database with: create database waybook owner waybook_owner;

-- Owns the database and runs the migrations.
do $$
begin
    if not exists (select from pg_catalog.pg_roles where rolname = 'waybook_owner') then
        create role waybook_owner
            login nosuperuser nocreatedb nocreaterole nobypassrls noreplication;
    end if;
end
$$;

-- Serves requests; row-level security holds for it, always.
do $$
begin
    if not exists (select from pg_catalog.pg_roles where rolname = 'waybook_app') then
        create role waybook_app
            login nosuperuser nocreatedb nocreaterole nobypassrls noreplication;
    end if;
end
$$;
