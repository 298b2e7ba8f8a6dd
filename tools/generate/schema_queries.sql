-- name: functions
select pg_get_functiondef(p.oid)
  from pg_proc p
 where p.pronamespace = 'public'::regnamespace
   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
 order by p.proname;

-- name: tables
-- Every table and partition with its parent, bounds, partition key, options and security flags.
select c.relname,
       i.inhparent::regclass::text,
       pg_get_expr(c.relpartbound, c.oid),
       case when c.relkind = 'p' then pg_get_partkeydef(c.oid) end,
       array_to_string(c.reloptions, ', '),
       c.relrowsecurity,
       c.relforcerowsecurity
  from pg_class c
  left join pg_inherits i on i.inhrelid = c.oid
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
 order by c.relname;

-- name: columns
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid), a.attgenerated = 's'
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
   and a.attnum > 0 and not a.attisdropped
 order by c.relname, a.attnum;

-- name: constraints
-- Not-null constraints are left out: only newer servers list them here, and `columns` shows them.
select c.relname, k.conname, pg_get_constraintdef(k.oid)
  from pg_constraint k
  join pg_class c on c.oid = k.conrelid
 where c.relnamespace = 'public'::regnamespace and k.contype <> 'n' and k.conparentid = 0
 order by c.relname, array_position(array['p', 'u', 'f', 'c'], k.contype::text), k.conname;

-- name: indexes
-- Indexes of constraints, and indexes that a partition inherits from its parent, are left out.
select c.relname, pg_get_indexdef(i.indexrelid)
  from pg_index i
  join pg_class c on c.oid = i.indrelid
 where c.relnamespace = 'public'::regnamespace
   and not exists (select from pg_constraint k where k.conindid = i.indexrelid)
   and not exists (select from pg_inherits h where h.inhrelid = i.indexrelid)
 order by c.relname, i.indexrelid::regclass::text;

-- name: triggers
select c.relname, pg_get_triggerdef(t.oid)
  from pg_trigger t
  join pg_class c on c.oid = t.tgrelid
 where c.relnamespace = 'public'::regnamespace and not t.tgisinternal
 order by c.relname, t.tgname;

-- name: policies
select tablename, policyname, permissive, cmd, array_to_string(roles, ', '), qual, with_check
  from pg_policies
 where schemaname = 'public'
 order by tablename, policyname;

-- name: grants
-- Privileges of all roles except the owner.
select c.relname, pg_get_userbyid(g.grantee), string_agg(lower(g.privilege_type), ', '
         order by array_position(array['SELECT', 'INSERT', 'UPDATE', 'DELETE'], g.privilege_type))
  from pg_class c
 cross join lateral aclexplode(c.relacl) g
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
   and g.grantee <> c.relowner
 group by c.relname, g.grantee
 order by c.relname, 2;
