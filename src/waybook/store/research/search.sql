-- name: search_capabilities
-- Return whether this server can rank with pgvector, and whether it can use the full-text index.
-- Under row-level security, an index serves only operators whose function is leakproof.
select to_regclass('public.passage_vector') is not null as has_pgvector,
       (select proleakproof from pg_proc
         where oid = 'pg_catalog.ts_match_vq(tsvector,tsquery)'::regprocedure) as indexed;

-- name: full_text
-- Passages with every term rank first. They are selected separately, so that the limit on the
-- others cannot exclude them.
with candidate as (
  (select p.subject_id, p.part, p.words, p.created_at, true as has_every
     from passage p
    where p.org_id = :org
      and p.words @@ case when numnode(websearch_to_tsquery('english', %(every)s)) > 0 then
            ('''@' || :org || '''')::tsquery && websearch_to_tsquery('english', %(every)s) end
      and :passage_fits
    limit %(candidates)s)
  union all
  (select p.subject_id, p.part, p.words, p.created_at, false
     from passage p
    where p.org_id = :org
      and p.words @@ case when numnode(websearch_to_tsquery('english', %(some)s)) > 0 then
            ('''@' || :org || '''')::tsquery && websearch_to_tsquery('english', %(some)s) end
      and not coalesce(p.words @@ case when numnode(websearch_to_tsquery('english', %(every)s)) > 0
                                       then websearch_to_tsquery('english', %(every)s) end, false)
      and :passage_fits
    limit %(candidates)s)
), :terms_asked
:best_candidates;

-- name: full_text_in_plan
-- Return matching passages without the full-text index: those of a plan, of its originals and of the
-- sources they cite or, if the index cannot be used, those among the newest passages of the org.
with among as (
  (select p.subject_id, p.part, p.words, p.created_at
     from passage p
    where p.org_id = :org
      and %(plan_id)s::uuid is null
      and :passage_fits
    order by p.created_at desc
    limit %(newest)s)
  union all
  (select p.subject_id, p.part, p.words, p.created_at
     from :passages_of_plan m
     join passage p on p.org_id = :org and p.subject_id = m.subject_id and p.part = m.part)
  union all
  (select p.subject_id, p.part, p.words, p.created_at
     from :sources_of_plan l
     join passage p on p.org_id = :org and p.subject_id = l.source_id
    where :passage_fits
    limit %(newest)s)
), :terms_asked, candidate as (
  select c.*, coalesce(c.words @@ case when numnode(websearch_to_tsquery('english', %(every)s)) > 0
                                   then websearch_to_tsquery('english', %(every)s) end, false)
              as has_every
    from among c
   where c.words @@ websearch_to_tsquery('english', %(every)s)
      or c.words @@ websearch_to_tsquery('english', %(some)s)
)
:best_candidates;

-- name: hits
-- Return the hits, each with its passage, its artifact or source, and the creator. Ids are cast
-- before the join, because a cast from text is not leakproof and the index would not be used.
select p.subject, p.subject_id::text as id, p.plan_id::text, p.kind, p.body, p.created_at,
       a.step_id::text, coalesce(a.created_by, s.created_by) as created_by, s.url,
       coalesce(a.title, s.title) as title, a.tags, a.version, a.superseded
  from (select v.subject_id::uuid, v.part::integer
          from (values %(rows)s) as v (subject_id, part)
        offset 0) v
  join passage p on p.org_id = :org and p.subject_id = v.subject_id and p.part = v.part
  left join artifact a on a.org_id = :org and p.subject = 'artifact' and a.id = p.subject_id
  left join source s on s.org_id = :org and p.subject = 'source' and s.id = p.subject_id;

-- name: sources_of
-- Each artifact's sources are in the order in which the artifact lists them.
select l.artifact_id::text, s.id::text, s.url, s.title, s.quote, l.retrieved_at
  from artifact_source l
  join source s on s.org_id = :org and s.id = l.source_id
 where l.org_id = :org and l.artifact_id = any (%(ids)s)
 order by l.artifact_id, l.position;

-- name: plan_exists
-- Return whether the plan to search in exists. True if the search is not limited to a plan.
select %(plan_id)s::uuid is null
    or exists (select from plan where org_id = :org and id = %(plan_id)s::uuid);
