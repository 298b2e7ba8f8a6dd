-- name: server
-- Who we are to the server, which one it is, and what time it has.
select current_setting('server_version'), current_user::text, r.rolsuper, r.rolbypassrls,
       clock_timestamp(), pg_database_size(current_database())
  from pg_roles r
 where r.rolname = current_user;

-- name: tables_without_rls
-- Tables without row-level security, or whose owner escapes it.
select c.relname::text
  from pg_class c
 where c.relnamespace = 'public'::regnamespace
   and c.relkind in ('r', 'p')
   and c.relname <> 'schema_migration'
   and not (c.relrowsecurity and c.relforcerowsecurity)
 order by c.relname;

-- name: owned
-- Tables that belong to the serving role, which should own nothing.
select c.relname::text
  from pg_class c
 where c.relnamespace = 'public'::regnamespace
   and c.relkind in ('r', 'p')
   and c.relowner = current_user::regrole
 order by c.relname;

-- name: audit_rights
-- What the serving role may do to the audit beyond reading and adding.
select v.privilege
  from (values ('UPDATE'), ('DELETE'), ('TRUNCATE')) as v (privilege)
 where has_table_privilege('public.audit_entry', v.privilege);
