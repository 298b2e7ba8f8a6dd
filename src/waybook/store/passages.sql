-- name: insert_passages
insert into passage (subject, subject_id, part, plan_id, kind, title, body, created_at, tags)
values %(rows)s
    on conflict (org_id, subject_id, part) do nothing;

-- name: unindex
delete from passage where subject_id = %(artifact_id)s;

-- name: unindex_earlier
-- Of what is in several versions search knows the latest alone.
delete from passage p
 using artifact a, artifact n
 where a.id = any (%(ids)s)
   and n.plan_id = a.plan_id and n.kind = a.kind and n.title = a.title and n.version < a.version
   and p.subject_id = n.id;

-- name: without_passages
-- Artifacts that search does not know yet, the oldest first; of several versions the latest.
select a.id::text, a.plan_id::text, a.kind, a.title, a.tags, a.content, a.created_at
  from artifact a
 where (%(since)s::timestamptz is null or a.created_at >= %(since)s)
   and not exists (select from passage p where p.subject_id = a.id)
   and not exists (select from artifact n
                    where n.plan_id = a.plan_id and n.kind = a.kind and n.title = a.title
                      and n.version > a.version)
   and not exists (select from artifact n
                    where a.plan_id is null and n.plan_id is null and n.kind = a.kind
                      and n.title = a.title and n.version > a.version)
 order by a.created_at, a.id
 limit %(most)s;
