-- name: role
-- Return the quoted current role, its exemptions from row-level security, and whether the
-- maintenance role exists.
select quote_ident(current_user) as name, r.rolsuper as superuser, r.rolbypassrls as bypasses,
       exists (select from pg_roles m where m.rolname = 'waybook_maintenance') as can_step_down
  from pg_roles r
 where r.rolname = current_user;

-- name: step_down
set local role waybook_maintenance;

-- name: exempt
-- Return tables with rows of orgs for which row-level security is inactive for the current role.
select c.relname::text
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
   and not row_security_active(c.oid)
 order by c.relname;

-- name: not_granted
-- Return tables with rows of orgs that the current role cannot read and change. Partitions are
-- accessed through their parent table, except the default partitions.
select c.relname::text
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
   and (not c.relispartition or pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT')
   and not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
            and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete'))
 order by c.relname;
