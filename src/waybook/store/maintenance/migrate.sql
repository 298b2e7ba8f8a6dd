-- name: lock
-- One process migrates, and the others wait for this lock.
select pg_advisory_xact_lock(718291004527);

-- name: limit_waiting
set local lock_timeout = '3s';

-- name: exists
select to_regclass('public.schema_migration') is not null;

-- name: create_table
create table if not exists schema_migration (
  number             integer     not null primary key,
  name               text        not null,
  digest             text        not null,
  ran_at             timestamptz not null default now(),
  -- A program must know at least this migration to use the schema.
  oldest_compatible  integer     not null
);
grant select on schema_migration to waybook_app;

-- name: done
select number, digest from schema_migration order by number;

-- name: record
insert into schema_migration (number, name, digest, oldest_compatible)
values (%(number)s, %(name)s, %(digest)s, %(oldest_compatible)s);

-- name: role_exists
select exists (select from pg_roles where rolname = 'waybook_app');

-- name: create_role
create role waybook_app nologin nosuperuser nocreatedb nocreaterole nobypassrls noreplication;
grant waybook_app to current_user;

-- name: local_org
-- The org of local mode has a fixed id, so that all processes use the same id.
set local app.org_id = '00000000-0000-7000-8000-000000000001';
insert into org (org_id, slug)
values ('00000000-0000-7000-8000-000000000001', 'local')
    on conflict (org_id) do nothing;

-- name: add_vector_extension
-- Without the extension, search ranks embeddings in the server process.
do $$
begin
  create extension if not exists vector;
exception
  when insufficient_privilege or undefined_file or feature_not_supported then
    null;
end $$;

-- name: lacks_vectors
-- Return whether pgvector was installed after Waybook, so that the table of vectors is missing.
-- Before version 0.8, the index of pgvector misses rows under row-level security.
select to_regclass('public.passage') is not null
   and to_regclass('public.passage_vector') is null
   and to_regtype('halfvec') is not null
   and exists (select from pg_extension
                where extname = 'vector'
                  and string_to_array(split_part(extversion, '-', 1), '.')::integer[] >= array[0, 8]);

-- name: create_vectors
-- The first 256 dimensions are the passage's embedding, and 32 encode its org. The index has no org
-- column, so these dimensions lead it to vectors of the same org (see `embeddings.py`).
create table passage_vector (
  org_id      uuid         not null default app_org(),
  subject_id  uuid         not null,
  part        integer      not null,
  model       text         not null,
  embedding   halfvec(288) not null,
  primary key (org_id, subject_id, part, model),
  foreign key (org_id, subject_id, part) references passage (org_id, subject_id, part)
    on delete cascade
);
create index passage_vector_near on passage_vector using hnsw (embedding halfvec_ip_ops);
alter table passage_vector enable row level security;
alter table passage_vector force row level security;
create policy tenant on passage_vector using (org_id = app_org()) with check (org_id = app_org());
grant select, insert on passage_vector to waybook_app;

-- name: lacks_maintenance_role
-- Return whether the current role is exempt from row-level security but cannot switch to a suitable
-- maintenance role. That role must be able to read and change every table with rows of orgs.
-- Partitions are accessed through their parent table, except the default partitions.
select (r.rolsuper or r.rolbypassrls)
   and not exists (
         select from pg_roles m
          where m.rolname = 'waybook_maintenance'
            and pg_has_role(current_user, m.oid, 'member')
            and not exists (
                  select from pg_class c
                    join pg_attribute a on a.attrelid = c.oid and a.attname = 'org_id'
                   where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
                     and not a.attisdropped
                     and (not c.relispartition or pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT')
                     and not (has_table_privilege(m.oid, c.oid, 'select')
                              and has_table_privilege(m.oid, c.oid, 'insert')
                              and has_table_privilege(m.oid, c.oid, 'update')
                              and has_table_privilege(m.oid, c.oid, 'delete'))))
  from pg_roles r
 where r.rolname = current_user;

-- name: has_maintenance_role
select exists (select from pg_roles where rolname = 'waybook_maintenance');

-- name: create_maintenance_role
create role waybook_maintenance
  nologin nosuperuser nocreatedb nocreaterole nobypassrls noreplication;

-- name: must_join
-- A superuser can switch to the maintenance role without being a member.
select not rolsuper from pg_roles where rolname = current_user;

-- name: join_maintenance_role
grant waybook_maintenance to current_user;

-- name: grant_maintenance
grant usage on schema public to waybook_maintenance;
do $$
declare
  found regclass;
begin
  for found in
    select c.oid::regclass
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
       and (not c.relispartition or pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT')
  loop
    execute format('grant select, insert, update, delete on %s to waybook_maintenance', found);
  end loop;
end
$$;

-- name: server
-- Return facts about the server, the database and the current role, with its exemptions from
-- row-level security.
select current_setting('server_version') as version, current_user::text as role,
       r.rolsuper as superuser, r.rolbypassrls as bypasses_rls, clock_timestamp() as now,
       pg_database_size(current_database()) as size
  from pg_roles r
 where r.rolname = current_user;

-- name: tables_without_rls
select c.relname::text
  from pg_class c
 where c.relnamespace = 'public'::regnamespace
   and c.relkind in ('r', 'p')
   and c.relname <> 'schema_migration'
   and not (c.relrowsecurity and c.relforcerowsecurity)
 order by c.relname;

-- name: owned
-- Return tables owned by the database role of the server, which should own none.
select c.relname::text
  from pg_class c
 where c.relnamespace = 'public'::regnamespace
   and c.relkind in ('r', 'p')
   and c.relowner = current_user::regrole
 order by c.relname;

-- name: audit_rights
-- Return the privileges of the server's role on the audit, other than reading and inserting.
select v.privilege
  from (values ('UPDATE'), ('DELETE'), ('TRUNCATE')) as v (privilege)
 where has_table_privilege('public.audit_entry', v.privilege);

-- name: applied
select number, digest, oldest_compatible from schema_migration order by number;

-- name: name_of_user
select quote_ident(session_user);

-- name: is_exempt
select rolsuper or rolbypassrls from pg_roles where rolname = current_user;
