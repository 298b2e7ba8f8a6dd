-- name: ends
-- Return the last entry of each audit chain of the org, and of its erasure records. The order does
-- not depend on the locale.
select app_org() as org_id, e.subject, e.subject_id, e.seq, coalesce(e.hash, '') as hash
  from (select 'plan' as subject, id::text as subject_id, audit_seq as seq, audit_hash as hash
          from plan where org_id = app_org()
         union all
        select 'run', id::text, audit_seq, audit_hash from run where org_id = app_org()
         union all
        select 'skill_execution', id::text, audit_seq, audit_hash from skill_execution
         where org_id = app_org()
         union all
        select 'artifact', id::text, audit_seq, audit_hash from artifact
         where org_id = app_org() and plan_id is null
         union all
        select 'org', org_id::text, audit_seq, audit_hash from org
         where org_id = app_org() and audit_seq > 0
         union all
        (select 'erasure', org_id::text, number, hash from erasure
          where org_id = app_org()
          order by number desc
          limit 1)) e
 where e.seq > 0
 order by e.subject collate "C", e.subject_id collate "C";

-- name: entries_at
-- Return the hashes of the audit entries and erasures at these positions. A missing entry has a
-- null hash.
select app_org() as org_id, a.subject, a.id as subject_id, a.seq, coalesce(e.hash, x.hash) as hash
  from json_to_recordset(%(places)s::json) as a (subject text, id text, seq integer)
  left join audit_entry e on e.org_id = app_org() and a.subject <> 'erasure'
                         and e.subject_id = a.id and e.seq = a.seq
  left join erasure x on x.org_id = app_org() and a.subject = 'erasure' and x.number = a.seq;

-- name: stones
-- Return the tombstones (records of erasures) of these chains. A deleted chain has no `seal_after`.
select t.subject_id::text, t.erasure, t.entries, t.seal_before, t.seal_after
  from tombstone t
 where t.org_id = app_org() and t.subject_id = any (%(ids)s::text[])
 order by t.erasure;
