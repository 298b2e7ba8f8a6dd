-- The two database roles of Waybook. A role that may create roles can run this file on any server,
-- more than once. Afterwards, set a password for each role and run `create database waybook owner
-- waybook_owner`.

-- This role owns the database and runs the migrations.
do $$
begin
    if not exists (select from pg_catalog.pg_roles where rolname = 'waybook_owner') then
        create role waybook_owner
            login nosuperuser nocreatedb nocreaterole nobypassrls noreplication;
    end if;
end
$$;

-- This role serves requests. Row-level security always applies to it.
do $$
begin
    if not exists (select from pg_catalog.pg_roles where rolname = 'waybook_app') then
        create role waybook_app
            login nosuperuser nocreatedb nocreaterole nobypassrls noreplication;
    end if;
end
$$;
