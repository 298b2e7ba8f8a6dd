-- name: insert_passages
insert into passage (subject, subject_id, part, plan_id, kind, title, body, created_at)
values %(rows)s
    on conflict (org_id, subject_id, part) do nothing;

-- name: insert_sources
-- A source that is there already stays as it was first stored.
insert into source (id, url, title, quote, retrieved_at, content_hash, created_at, created_by)
values %(rows)s
    on conflict (org_id, id) do nothing;

-- name: insert_links
insert into artifact_source (artifact_id, source_id, position)
values %(rows)s
    on conflict (org_id, artifact_id, source_id) do nothing;

-- name: without_passages
-- Artifacts that search does not know yet, the oldest first.
select a.id::text, a.plan_id::text, a.kind, a.title, a.tags, a.content, a.created_at
  from artifact a
 where not a.superseded
   and not exists (select from passage p where p.subject_id = a.id)
 order by a.id
 limit %(most)s;
