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

-- name: latest_outputs
-- The latest version of each output, of all plans, before one of them, newest first.
select a.id::text, a.title, a.media_type, a.version, a.content_hash, a.created_at, a.created_by,
       a.plan_id::text, p.name
  from artifact a
  join plan p on p.id = a.plan_id
 where a.kind = 'output'
   and (a.created_at, a.id) < (%(at)s::timestamptz, %(id)s::uuid)
   and not exists (select from artifact n
                    where n.plan_id = a.plan_id and n.kind = a.kind and n.title = a.title
                      and n.version > a.version)
 order by a.created_at desc, a.id desc
 limit %(most)s;
