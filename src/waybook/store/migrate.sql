-- name: lock
-- One process migrates, the others wait.
select pg_advisory_xact_lock(718291004527);

-- name: exists
select to_regclass('public.schema_migration') is not null;

-- name: create_table
create table if not exists schema_migration (
  number  integer     not null primary key,
  name    text        not null,
  digest  text        not null,
  ran_at  timestamptz not null default now()
);

-- name: done
select number, digest from schema_migration order by number;

-- name: record
insert into schema_migration (number, name, digest)
values (%(number)s, %(name)s, %(digest)s);

-- name: role_exists
select exists (select from pg_roles where rolname = 'waybook_app');

-- name: create_role
create role waybook_app nologin nosuperuser nocreatedb nocreaterole nobypassrls noreplication;
grant waybook_app to current_user;

-- name: local_org
-- The org of local mode. Its id is fixed, so that every process agrees on it.
set local app.org_id = '00000000-0000-7000-8000-000000000001';
insert into org (org_id, slug)
values ('00000000-0000-7000-8000-000000000001', 'local')
    on conflict (org_id) do nothing;
