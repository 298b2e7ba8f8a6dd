-- name: rows_by_org
-- How many rows a change touched, by org; the brace is filled with a statement that returns org_id.
with changed as ({statement})
select org_id, count(*) from changed group by org_id;

-- name: erasures
-- The erasures of an org, oldest first; the counts as the very text.
select number, at, by, what, who, counts::text, hash from erasure where org_id = app_org()
 order by number;

-- name: tombstones
-- What each erasure left of the chains it touched, in the order it sealed them.
select erasure, subject, subject_id::text, entries, seal_before, seal_after from tombstone
 where org_id = app_org()
 order by erasure, subject_id;

-- name: erasure_head
-- Where the chain of erasures should end; nothing, where the org itself is gone.
select erasures, erasure_hash from org where org_id = app_org();

-- name: returned
-- What was erased, and is there all the same: in the audit, or as rows. The org of local mode goes
-- on, and so does its chain.
select t.erasure, t.subject, t.subject_id::text
  from tombstone t
 where t.org_id = app_org() and t.seal_after is null and t.subject <> 'org'
   and (exists (select from audit_entry e
                where e.org_id = t.org_id and e.subject_id = t.subject_id)
        or exists (select from plan p where p.org_id = t.org_id and p.id = t.subject_id)
        or exists (select from run r where r.org_id = t.org_id and r.id = t.subject_id)
        or exists (select from skill_execution x
                   where x.org_id = t.org_id and x.id = t.subject_id)
        or exists (select from artifact a where a.org_id = t.org_id and a.id = t.subject_id))
 order by t.erasure, t.subject_id;

-- name: resealed_chains
-- Where a chain was last sealed anew, and with which seal; nothing, where it ended since.
select t.entries, t.seal_after as seal
  from (select entries, seal_after from tombstone
         where org_id = app_org() and subject_id = %(subject_id)s
         order by erasure desc
         limit 1) t
 where t.seal_after is not null;

-- name: all_org_ids
-- Every org there is or was, for whoever verifies them all.
select org_id from org union select org_id from erasure;
