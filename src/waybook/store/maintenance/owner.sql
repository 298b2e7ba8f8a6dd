-- name: rows_by_org
-- Return the number of changed rows per org. The placeholder is a statement that returns org_id.
with changed as ({statement})
select org_id, count(*) from changed group by org_id;

-- name: erasures
-- Return the org's erasure records, oldest first. `counts` is the exact text that the seal covers.
select number, at, by, what, who, counts::text, hash from erasure where org_id = app_org()
 order by number;

-- name: tombstones
-- Return the tombstones of each erasure in the order in which they are hashed.
select erasure, subject, subject_id::text, entries, seal_before, seal_after from tombstone
 where org_id = app_org()
 order by erasure, subject_id;

-- name: erasure_head
-- Return the number and seal of the org's last erasure, or no row if the org itself was erased.
select erasures, erasure_hash from org where org_id = app_org();

-- name: returned
-- Return the plans, runs and other erased subjects of audit chains that exist again. Orgs are not
-- checked, because the org of local mode remains after its erasure.
select t.erasure, t.subject, t.subject_id::text
  from tombstone t
 where t.org_id = app_org() and t.seal_after is null and t.subject <> 'org'
   and (exists (select from audit_entry e
                where e.org_id = t.org_id and e.subject_id = t.subject_id)
        or exists (select from plan p where p.org_id = t.org_id and p.id = t.subject_id)
        or exists (select from run r where r.org_id = t.org_id and r.id = t.subject_id)
        or exists (select from skill_execution x
                   where x.org_id = t.org_id and x.id::text = t.subject_id)
        or exists (select from artifact a where a.org_id = t.org_id and a.id::text = t.subject_id))
 order by t.erasure, t.subject_id;

-- name: resealed_chains
-- Return the length and last hash that an audit chain had when an erasure last recomputed its
-- hashes. There is no row if a later erasure deleted the chain.
select t.entries, t.seal_after as seal
  from (select entries, seal_after from tombstone
         where org_id = app_org() and subject_id = %(subject_id)s
         order by erasure desc
         limit 1) t
 where t.seal_after is not null;

-- name: all_org_ids
select org_id from org union select org_id from erasure;

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
