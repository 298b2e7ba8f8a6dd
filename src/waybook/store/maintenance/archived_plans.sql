-- Everything of plans that are over, in an order foreign keys allow; each statement is named for
-- its table, and all of them are run by the owner, one after the other, as in erasure.sql.

-- name: passage
-- What search knows of them; vectors go with it.
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
-- The sources that nobody else names.
delete from source where org_id = %(org_id)s and id = any (%(sources)s) returning org_id;

-- name: artifact
delete from artifact where org_id = %(org_id)s and plan_id = any (%(ids)s) returning org_id;

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

-- name: webhook_delivery
delete from webhook_delivery
 where org_id = %(org_id)s and subject_id = any (%(ids)s)
returning org_id;

-- name: audit_entry
delete from audit_entry where org_id = %(org_id)s and subject_id = any (%(ids)s) returning org_id;

-- name: plan
delete from plan where org_id = %(org_id)s and id = any (%(ids)s) returning org_id;
