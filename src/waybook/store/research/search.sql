-- name: search_capabilities
-- What this server can do for search: rank with pgvector, and find words by their index. Under
-- row-level security an index serves an operator only if its function is marked leakproof.
select to_regclass('public.passage_vector') is not null as has_pgvector,
       (select proleakproof from pg_proc
         where oid = 'pg_catalog.ts_match_vq(tsvector,tsquery)'::regprocedure) as indexed;

-- name: full_text
-- Passages of the whole org, by the index of words. Those that have every word come apart, so
-- that the limit on the others cannot cut them off; they come first.
with candidate as (
  (select p.subject_id, p.part, p.words, p.created_at, true as has_every
     from passage p
    where p.words @@ case when numnode(websearch_to_tsquery('english', %(every)s)) > 0 then
            ('''@' || app_org() || '''')::tsquery && websearch_to_tsquery('english', %(every)s) end
      and :passage_fits
    limit %(candidates)s)
  union all
  (select p.subject_id, p.part, p.words, p.created_at, false
     from passage p
    where p.words @@ case when numnode(websearch_to_tsquery('english', %(some)s)) > 0 then
            ('''@' || app_org() || '''')::tsquery && websearch_to_tsquery('english', %(some)s) end
      and not coalesce(p.words @@ case when numnode(websearch_to_tsquery('english', %(every)s)) > 0
                                       then websearch_to_tsquery('english', %(every)s) end, false)
      and :passage_fits
    limit %(candidates)s)
), :terms_asked
:best_candidates;

-- name: full_text_in_plan
-- The same, looking at one passage after the other: at those of a plan and of the sources its
-- artifacts came from, or at the newest of the org where the index of words cannot be used.
with among as (
  (select p.subject_id, p.part, p.words, p.created_at
     from passage p
    where %(plan_id)s::uuid is null
      and :passage_fits
    order by p.created_at desc
    limit %(newest)s)
  union all
  (select p.subject_id, p.part, p.words, p.created_at
     from passage p
    where p.plan_id = %(plan_id)s::uuid
      and :passage_fits
    order by p.created_at desc
    limit %(newest)s)
  union all
  (select p.subject_id, p.part, p.words, p.created_at
     from :sources_of_plan l
     join passage p on p.subject_id = l.source_id
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
-- What was found: the passage that stands for it, and whose it is.
select p.subject, p.subject_id::text as id, p.plan_id::text, p.kind, p.body, p.created_at,
       a.step_id::text, coalesce(a.created_by, s.created_by) as created_by, s.url,
       coalesce(a.title, s.title) as title, a.tags, a.version, a.superseded
  from (values %(rows)s) as v (subject_id, part)
  join passage p on p.subject_id = v.subject_id::uuid and p.part = v.part::integer
  left join artifact a on p.subject = 'artifact' and a.id = p.subject_id
  left join source s on p.subject = 'source' and s.id = p.subject_id;

-- name: sources_of
-- The sources of these artifacts, in the order they were given.
select l.artifact_id::text, s.id::text, s.url, s.title, s.quote, l.retrieved_at
  from artifact_source l
  join source s on s.id = l.source_id
 where l.artifact_id = any (%(ids)s)
 order by l.artifact_id, l.position;

-- name: plan_exists
-- Whether there is such a plan, for who looks in one place.
select %(plan_id)s::uuid is null
    or exists (select from plan where id = %(plan_id)s::uuid);
