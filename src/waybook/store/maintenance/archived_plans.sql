-- Delete all rows of closed plans, in an order that foreign keys allow. The database owner runs all
-- statements, as in erasure.sql.

-- name: passage
-- Delete the indexed passages of the plans and of their sources. Their vectors are deleted by
-- cascade.
delete from passage
 where org_id = %(org_id)s and (plan_id = any (%(ids)s) or subject_id = any (%(sources)s))
returning org_id;

-- name: artifact_source
delete from artifact_source
 where org_id = %(org_id)s
   and artifact_id in (select id from artifact
                        where org_id = %(org_id)s and plan_id = any (%(ids)s))
returning org_id;

-- name: source
-- Delete the sources that only these plans cited.
delete from source where org_id = %(org_id)s and id = any (%(sources)s) returning org_id;

-- name: artifact
delete from artifact where org_id = %(org_id)s and plan_id = any (%(ids)s) returning org_id;

-- name: comment
delete from comment where org_id = %(org_id)s and plan_id = any (%(ids)s) returning org_id;

-- name: usage
delete from usage where org_id = %(org_id)s and plan_id = any (%(ids)s) returning org_id;

-- name: review
delete from review where org_id = %(org_id)s and plan_id = any (%(ids)s) returning org_id;

-- name: branching_condition
delete from branching_condition
 where org_id = %(org_id)s and plan_id = any (%(ids)s)
returning org_id;

-- name: plan_session
delete from plan_session where org_id = %(org_id)s and plan_id = any (%(ids)s) returning org_id;

-- name: step_result
delete from step_result
 where org_id = %(org_id)s
   and step_id in (select id from plan_step
                    where org_id = %(org_id)s and plan_id = any (%(ids)s))
returning org_id;

-- name: step_brief
delete from step_brief
 where org_id = %(org_id)s
   and step_id in (select id from plan_step
                    where org_id = %(org_id)s and plan_id = any (%(ids)s))
returning org_id;

-- name: plan_step
delete from plan_step where org_id = %(org_id)s and plan_id = any (%(ids)s) returning org_id;

-- name: plan_brief
delete from plan_brief where org_id = %(org_id)s and plan_id = any (%(ids)s) returning org_id;

-- name: plan_word
-- Delete the index entries for the words of the plans' names. There is no index by plan, so they
-- are found by word.
delete from plan_word w
 using plan p
 cross join lateral unnest(app_name_parts(p.name)) as n (word)
 where p.org_id = %(org_id)s
   and p.id = any (%(ids)s)
   and w.org_id = %(org_id)s
   and w.word = n.word
   and w.plan_id = p.id
returning w.org_id;

-- name: webhook_delivery
delete from webhook_delivery
 where org_id = %(org_id)s and subject_id = any (%(ids)s)
returning org_id;

-- name: access_link
delete from access_link where org_id = %(org_id)s and plan_id = any (%(ids)s) returning org_id;

-- name: audit_entry
delete from audit_entry where org_id = %(org_id)s and subject_id = any (%(ids)s) returning org_id;

-- name: plan
delete from plan where org_id = %(org_id)s and id = any (%(ids)s) returning org_id;
