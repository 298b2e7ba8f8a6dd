-- The two roles Waybook works as. Neither is a superuser, and the second owns nothing.
-- May be repeated, and may be run on any server by whoever may create roles; give each role a
-- password afterwards, and make the database with: create database waybook owner waybook_owner;

-- Owns the database and runs the migrations.
do $$
begin
    create role waybook_owner login nosuperuser nocreatedb nocreaterole nobypassrls noreplication;
exception when duplicate_object then
    null;
end
$$;

-- Serves requests; row-level security holds for it, always.
do $$
begin
    create role waybook_app login nosuperuser nocreatedb nocreaterole nobypassrls noreplication;
exception when duplicate_object then
    null;
end
$$;
