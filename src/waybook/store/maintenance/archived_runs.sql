-- Delete all rows of completed runs, in an order that foreign keys allow. The database owner runs
-- all statements, as in erasure.sql.

-- name: rendered_document
delete from rendered_document where org_id = %(org_id)s and run_id = any (%(ids)s) returning org_id;

-- name: document
delete from document where org_id = %(org_id)s and run_id = any (%(ids)s) returning org_id;

-- name: late_result
delete from late_result where org_id = %(org_id)s and run_id = any (%(ids)s) returning org_id;

-- name: job_part
delete from job_part where org_id = %(org_id)s and run_id = any (%(ids)s) returning org_id;

-- name: comment
delete from comment where org_id = %(org_id)s and run_id = any (%(ids)s) returning org_id;

-- name: usage
delete from usage where org_id = %(org_id)s and run_id = any (%(ids)s) returning org_id;

-- name: job
delete from job where org_id = %(org_id)s and run_id = any (%(ids)s) returning org_id;

-- name: stage_step
delete from stage_step where org_id = %(org_id)s and run_id = any (%(ids)s) returning org_id;

-- name: stage_run
delete from stage_run where org_id = %(org_id)s and run_id = any (%(ids)s) returning org_id;

-- name: run_brief
delete from run_brief where org_id = %(org_id)s and run_id = any (%(ids)s) returning org_id;

-- name: run_word
-- Delete the index entries for the words of the runs' names. There is no index by run, so they are
-- found by word.
delete from run_word w
 using run r
 cross join lateral unnest(app_name_parts(r.name)) as n (word)
 where r.org_id = %(org_id)s
   and r.id = any (%(ids)s)
   and w.org_id = %(org_id)s
   and w.word = n.word
   and w.run_id = r.id
returning w.org_id;

-- name: webhook_delivery
delete from webhook_delivery
 where org_id = %(org_id)s and subject_id = any (%(ids)s)
returning org_id;

-- name: access_link
delete from access_link where org_id = %(org_id)s and run_id = any (%(ids)s) returning org_id;

-- name: audit_entry
delete from audit_entry where org_id = %(org_id)s and subject_id = any (%(ids)s) returning org_id;

-- name: run
delete from run where org_id = %(org_id)s and id = any (%(ids)s) returning org_id;
