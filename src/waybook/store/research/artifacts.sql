-- name: lock_name
-- Serialize writes of artifacts without a plan that have this kind and title, even if there is no
-- row to lock.
select pg_advisory_xact_lock(hashtextextended(
         :org || chr(31) || %(kind)s::text || chr(31) || %(title)s::text, 718291004528));

-- name: latest_standalone
-- Return the latest version of the artifact with this kind and title that was stored without a
-- plan.
select id::text, version, content_hash
  from artifact
 where org_id = :org
   and plan_id is null and kind = %(kind)s and title = %(title)s and version is not null
 order by version desc
 limit 1;

-- name: latest_in_plan
select id::text, version, content_hash
  from artifact
 where org_id = :org
   and plan_id = %(plan_id)s and kind = %(kind)s and title = %(title)s and version is not null
 order by version desc
 limit 1;

-- name: known_sources
select distinct l.source_id::text
  from artifact_source l
  join artifact a on a.org_id = :org and a.id = l.artifact_id
 where l.org_id = :org and l.source_id = any (%(ids)s) and a.plan_id = %(plan_id)s;

-- name: stored_standalone_rows
-- Return all rows that the audit of an artifact without a plan covers, for a comparison with the
-- rows rebuilt from the audit.
select 'artifact' as entity, a.id::text as id, json_build_object(
         'step_id', a.step_id, 'kind', a.kind, 'title', a.title, 'content', a.content,
         'superseded', a.superseded, 'created_at', a.created_at, 'created_by', a.created_by,
         'tags', nullif(a.tags::text, '[]')::json, 'metadata', a.metadata, 'version', a.version,
         'content_hash', a.content_hash) as values
  from artifact a
 where a.org_id = :org and a.id = %(artifact_id)s
 union all
select 'source', s.id::text, json_build_object(
         'url', s.url, 'title', s.title, 'quote', s.quote, 'content_hash', s.content_hash)
  from artifact_source l
  join source s on s.org_id = :org and s.id = l.source_id
 where l.org_id = :org and l.artifact_id = %(artifact_id)s
 union all
select 'artifact_source', l.artifact_id || '/' || l.position, json_build_object(
         'artifact_id', l.artifact_id, 'source_id', l.source_id, 'position', l.position,
         'retrieved_at', l.retrieved_at)
  from artifact_source l
 where l.org_id = :org and l.artifact_id = %(artifact_id)s;

-- name: artifact
-- Return one artifact with its full content, and the ids of its previous and next versions.
select a.id::text, a.plan_id::text, a.step_id::text, a.kind, a.title, a.content, a.superseded,
       a.tags, a.metadata, a.version, a.created_at, a.created_by,
       v.earlier, v.later
  from artifact a
 cross join lateral (
         select max(n.id::text) filter (where n.version < a.version) as earlier,
                max(n.id::text) filter (where n.version > a.version) as later
           from (select n.id, n.version
                   from artifact n
                  where n.org_id = :org
                    and n.plan_id = a.plan_id and n.kind = a.kind and n.title = a.title
                    and n.version between a.version - 1 and a.version + 1
                  union all
                 select n.id, n.version
                   from artifact n
                  where n.org_id = :org
                    and a.plan_id is null and n.plan_id is null and n.kind = a.kind
                    and n.title = a.title
                    and n.version between a.version - 1 and a.version + 1) n) v
 where a.org_id = :org and a.id = %(artifact_id)s;

-- name: source
-- Return one source, and the latest artifacts that cite it.
select s.id::text, s.url, s.title, s.quote, s.created_at, s.created_by,
       (select max(l.retrieved_at) from artifact_source l where l.org_id = :org
                                                            and l.source_id = s.id) as retrieved_at,
       (select json_agg(json_build_object('id', c.id, 'kind', c.kind, 'title', c.title,
                                           'plan_id', c.plan_id))
          from (select a.id, a.kind, a.title, a.plan_id
                  from artifact_source l
                  join artifact a on a.org_id = :org and a.id = l.artifact_id
                 where l.org_id = :org and l.source_id = s.id
                 order by a.created_at desc, a.id desc
                 limit %(most)s) c) as citations
  from source s
 where s.org_id = :org and s.id = %(source_id)s;

-- The table `passage_vector` exists only if the server has pgvector.

-- name: insert_vectors
insert into passage_vector (subject_id, part, model, embedding)
values %(rows)s
    on conflict (org_id, subject_id, part, model) do nothing;

-- name: nearest_vectors
-- If the org has few passages, all are compared. If it has many, the vector index is scanned. `+ 0`
-- keeps the exact comparison from using the vector index.
with size as materialized (
  select count(*) as passages
    from (select from passage p
           where p.org_id = :org and :passage_fits
           limit %(few)s::integer + 1) counted
), compared as (
  select v.subject_id, v.part, v.embedding <#> %(embedding)s::halfvec as distance
    from passage p
    join passage_vector v on v.subject_id = p.subject_id and v.part = p.part
   where p.org_id = :org
     and (select passages from size) <= %(few)s::integer
     and v.model = %(model)s
     and :passage_fits
   order by (v.embedding <#> %(embedding)s::halfvec) + 0
   limit %(most)s
), walked as (
  select v.subject_id, v.part, v.embedding <#> %(embedding)s::halfvec as distance
    from passage_vector v
    join passage p on p.org_id = :org and p.subject_id = v.subject_id and p.part = v.part
   where (select passages from size) > %(few)s::integer
     and v.model = %(model)s
     and :passage_fits
   order by v.embedding <#> %(embedding)s::halfvec
   limit %(most)s
)
select n.subject_id::text, n.part, -n.distance as measure
  from (select * from compared union all select * from walked) n
 order by n.distance, n.subject_id, n.part;

-- name: nearest_vectors_in_plan
with among as (
  :passages_of_plan
  union all
  :passages_of_cited_sources
)
select v.subject_id::text, v.part, -(v.embedding <#> %(embedding)s::halfvec) as measure
  from among a
  join passage_vector v on v.subject_id = a.subject_id and v.part = a.part
 where v.model = %(model)s
 order by (v.embedding <#> %(embedding)s::halfvec) + 0, v.subject_id, v.part
 limit %(most)s;

-- name: without_vectors
-- Return passages created since a given time that have no vector of this model yet.
:passages_to_embed
   and not exists (select from passage_vector v
                    where v.subject_id = p.subject_id and v.part = p.part
                      and v.model = %(model)s)
 order by p.subject_id, p.part
 limit %(most)s;

-- name: insert_passages
insert into passage (subject, subject_id, part, plan_id, kind, title, body, created_at, tags)
values %(rows)s
    on conflict (org_id, subject_id, part) do nothing;

-- name: record_unindexed
-- Record the deletion of an artifact's passages, for processes that have them in memory.
insert into passage_deletion (org_id, subject_id, part)
select p.org_id, p.subject_id, p.part
  from passage p
 where p.org_id = :org and p.subject_id = %(artifact_id)s
    on conflict (org_id, deleted, subject_id, part) do nothing;

-- name: unindex
-- Delete the passages of an artifact after their deletion was recorded.
delete from passage p
 where p.org_id = :org and p.subject_id = %(artifact_id)s and :deletion_is_recorded;

-- name: record_earlier_unindexed
-- Record the deletion of the passages of these artifacts' earlier versions, for processes that have
-- them in memory.
insert into passage_deletion (org_id, subject_id, part)
select p.org_id, p.subject_id, p.part
  from passage p
  join artifact n on n.org_id = :org and n.id = p.subject_id
  join artifact a on a.org_id = :org and a.plan_id = n.plan_id and a.kind = n.kind
                 and a.title = n.title and a.version > n.version
 where p.org_id = :org and a.id = any (%(ids)s)
    on conflict (org_id, deleted, subject_id, part) do nothing;

-- name: unindex_earlier
-- Delete the passages of these artifacts' earlier versions after their deletion was recorded. Only
-- the latest version is searchable.
delete from passage p
 using artifact a, artifact n
 where p.org_id = :org and a.org_id = :org and n.org_id = :org
   and a.id = any (%(ids)s)
   and n.plan_id = a.plan_id and n.kind = a.kind and n.title = a.title and n.version < a.version
   and p.subject_id = n.id
   and :deletion_is_recorded;

-- name: without_passages
-- Return artifacts that are not indexed for search yet, oldest first. Only the latest version is
-- returned.
select a.id::text, a.plan_id::text, a.kind, a.title, a.tags, a.content, a.created_at
  from artifact a
 where a.org_id = :org
   and (%(since)s::timestamptz is null or a.created_at >= %(since)s)
   and not exists (select from passage p where p.org_id = :org
                                           and p.subject_id = a.id)
   and not exists (select from artifact n
                    where n.org_id = :org
                      and n.plan_id = a.plan_id and n.kind = a.kind and n.title = a.title
                      and n.version > a.version)
   and not exists (select from artifact n
                    where n.org_id = :org
                      and a.plan_id is null and n.plan_id is null and n.kind = a.kind
                      and n.title = a.title and n.version > a.version)
 order by a.created_at, a.id
 limit %(most)s;
