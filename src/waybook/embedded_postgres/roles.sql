-- The two database roles of Waybook. Neither is a superuser, and the second owns no objects. Safe
-- to run more than once, on any server, by a role that may create roles. Afterwards, set a password
-- for each role and run `create database waybook owner waybook_owner`.

-- Role that owns the database and runs the migrations.
do $$
begin
    if not exists (select from pg_catalog.pg_roles where rolname = 'waybook_owner') then
        create role waybook_owner
            login nosuperuser nocreatedb nocreaterole nobypassrls noreplication;
    end if;
end
$$;

-- Role that serves requests. Row-level security always applies to it.
do $$
begin
    if not exists (select from pg_catalog.pg_roles where rolname = 'waybook_app') then
        create role waybook_app
            login nosuperuser nocreatedb nocreaterole nobypassrls noreplication;
    end if;
end
$$;
