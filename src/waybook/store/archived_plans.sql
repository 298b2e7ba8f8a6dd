-- Everything of plans that are over, in an order foreign keys allow; each statement is named for
-- its table, and all of them are run by the owner, one after the other.

-- name: passage
-- What search knows of them; vectors go with it.
delete from passage where plan_id = any (%(ids)s) or subject_id = any (%(sources)s);

-- name: artifact_source
delete from artifact_source
 where artifact_id in (select id from artifact where plan_id = any (%(ids)s));

-- name: source
-- The sources that nobody else names.
delete from source where id = any (%(sources)s);

-- name: artifact
delete from artifact where plan_id = any (%(ids)s);

-- name: usage
delete from usage where plan_id = any (%(ids)s);

-- name: review
delete from review where plan_id = any (%(ids)s);

-- name: branching_condition
delete from branching_condition where plan_id = any (%(ids)s);

-- name: plan_session
delete from plan_session where plan_id = any (%(ids)s);

-- name: step_result
delete from step_result
 where step_id in (select id from plan_step where plan_id = any (%(ids)s));

-- name: step_brief
delete from step_brief
 where step_id in (select id from plan_step where plan_id = any (%(ids)s));

-- name: plan_step
delete from plan_step where plan_id = any (%(ids)s);

-- name: plan_brief
delete from plan_brief where plan_id = any (%(ids)s);

-- name: webhook_delivery
delete from webhook_delivery where subject_id = any (%(ids)s);

-- name: audit_entry
delete from audit_entry where subject_id = any (%(ids)s);

-- name: plan
delete from plan where id = any (%(ids)s);
