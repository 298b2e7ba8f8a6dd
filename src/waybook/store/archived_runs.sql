-- Everything of runs that are over, in an order foreign keys allow; each statement is named for
-- its table, and all of them are run by the owner, one after the other.

-- name: rendered_document
delete from rendered_document where run_id = any (%(ids)s);

-- name: document
delete from document where run_id = any (%(ids)s);

-- name: late_result
delete from late_result where run_id = any (%(ids)s);

-- name: job_part
delete from job_part where run_id = any (%(ids)s);

-- name: usage
delete from usage where run_id = any (%(ids)s);

-- name: job
delete from job where run_id = any (%(ids)s);

-- name: stage_step
delete from stage_step where run_id = any (%(ids)s);

-- name: stage_run
delete from stage_run where run_id = any (%(ids)s);

-- name: run_brief
delete from run_brief where run_id = any (%(ids)s);

-- name: webhook_delivery
delete from webhook_delivery where subject_id = any (%(ids)s);

-- name: audit_entry
delete from audit_entry where subject_id = any (%(ids)s);

-- name: run
delete from run where id = any (%(ids)s);
