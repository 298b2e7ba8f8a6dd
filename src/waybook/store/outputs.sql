-- name: outputs
-- The outputs of a plan with all their versions, newest first, without the texts.
select id::text, title, media_type, version, content_hash, created_at, created_by
  from artifact
 where plan_id = %(plan_id)s and kind = 'output'
 order by created_at desc, id desc
 limit %(most)s;

-- name: output
-- One output, with its text.
select id::text, title, media_type, version, content_hash, created_at, created_by, plan_id::text,
       content #>> '{}'
  from artifact
 where id = %(id)s and kind = 'output';
