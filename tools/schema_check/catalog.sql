-- Queries on the database catalog. Those named `violation_…` return objects with their violations.

-- name: tenant_tables
-- Tables with rows of orgs. Partitions are left out, because they are distributed with their parent.
select c.relname
  from pg_class c
 where c.relnamespace = 'public'::regnamespace
   and c.relkind in ('r', 'p')
   and not c.relispartition
   and exists (select from pg_attribute a
                where a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped);

-- name: volatile_functions
-- Volatile functions: their result may differ from call to call within a statement.
select p.proname
  from pg_proc p
 where p.pronamespace in ('public'::regnamespace, 'pg_catalog'::regnamespace)
   and p.prokind = 'f'
 group by p.proname
having bool_and(p.provolatile = 'v');

-- name: defaults
-- Default values of the columns of all tables.
select c.relname, a.attname, pg_get_expr(d.adbin, d.adrelid)
  from pg_attrdef d
  join pg_class c on c.oid = d.adrelid
  join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
 where c.relnamespace = 'public'::regnamespace and not c.relispartition and a.attgenerated = '';

-- name: violation_no_org
select c.relname, 'the table has no column org_id'
  from pg_class c
 where c.relnamespace = 'public'::regnamespace
   and c.relkind in ('r', 'p')
   and not exists (select from pg_attribute a
                    where a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped);

-- name: violation_row_security
select c.relname, 'row-level security is not enabled and forced'
  from pg_class c
 where c.relnamespace = 'public'::regnamespace
   and c.relkind in ('r', 'p')
   and not (c.relrowsecurity and c.relforcerowsecurity);

-- name: violation_unique_index
select i.indexrelid::regclass::text, 'a unique index needs the column org_id'
  from pg_index i
  join pg_class c on c.oid = i.indrelid
  join pg_attribute o on o.attrelid = c.oid and o.attname = 'org_id'
 where c.relnamespace = 'public'::regnamespace
   and not c.relispartition
   and (i.indisunique or i.indisexclusion)
   and not o.attnum = any (i.indkey[0:i.indnkeyatts - 1]);

-- name: violation_foreign_key
-- A foreign key must compare the column org_id of both tables.
select c.relname || '.' || k.conname, 'a foreign key needs the column org_id on both sides'
  from pg_constraint k
  join pg_class c on c.oid = k.conrelid
 where k.contype = 'f'
   and c.relnamespace = 'public'::regnamespace
   and not c.relispartition
   and not exists (select
                     from unnest(k.conkey, k.confkey) as pair (own, other)
                     join pg_attribute a on a.attrelid = k.conrelid and a.attnum = pair.own
                     join pg_attribute b on b.attrelid = k.confrelid and b.attnum = pair.other
                    where a.attname = 'org_id' and b.attname = 'org_id');

-- name: violation_trigger
select c.relname || '.' || t.tgname, 'a distributed table has no triggers'
  from pg_trigger t
  join pg_class c on c.oid = t.tgrelid
 where not t.tgisinternal
   and c.relnamespace = 'public'::regnamespace;

-- name: violation_definer
select p.proname, 'a function with the rights of its owner does not run on the nodes'
  from pg_proc p
 where p.pronamespace = 'public'::regnamespace
   and p.prosecdef;
