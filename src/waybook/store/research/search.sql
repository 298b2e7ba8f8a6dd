-- name: search_capabilities
-- Return whether this server can rank with pgvector, and whether it can use the full-text index.
-- Under row-level security, an index serves only operators whose function is leakproof.
select to_regclass('public.passage_vector') is not null as has_pgvector,
       (select proleakproof from pg_proc
         where oid = 'pg_catalog.ts_match_vq(tsvector,tsquery)'::regprocedure) as indexed;

-- name: full_text
-- Return a limited number of passages: with every term, then with a heavy (rare) term and, if these
-- are few, with any term.
with heavy as materialized (
  select p.subject_id, p.part, p.words, p.created_at
    from passage p
   where p.org_id = :org
     and p.words @@ case when numnode(websearch_to_tsquery('english', %(heavy)s)) > 0 then
           ('''@' || :org || '''')::tsquery && websearch_to_tsquery('english', %(heavy)s) end
     and not :has_every_term
     and :passage_fits
   limit %(candidates)s
), candidate as (
  (select p.subject_id, p.part, p.words, p.created_at, true as has_every
     from passage p
    where p.org_id = :org
      and p.words @@ case when numnode(websearch_to_tsquery('english', %(every)s)) > 0 then
            ('''@' || :org || '''')::tsquery && websearch_to_tsquery('english', %(every)s) end
      and :passage_fits
    limit %(candidates)s)
  union all
  (select h.*, false from heavy h)
  union all
  (select p.subject_id, p.part, p.words, p.created_at, false
     from passage p
    where p.org_id = :org
      and p.words @@ case when numnode(websearch_to_tsquery('english', %(light)s)) > 0 then
            ('''@' || :org || '''')::tsquery && websearch_to_tsquery('english', %(light)s) end
      and not coalesce(p.words @@ websearch_to_tsquery('english', %(heavy)s), false)
      and not :has_every_term
      and :passage_fits
    limit %(candidates)s - (select count(*) from heavy))
), :best_candidates;

-- name: full_text_in_plan
-- Return matching passages without the full-text index: those of a plan, of its originals and of the
-- sources they cite or, if the index cannot be used, those among the newest passages of the org.
with among as (
  (select p.subject_id, p.part, p.words, p.created_at
     from passage p
    where p.org_id = :org
      and %(plan_id)s::text is null
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
), candidate as (
  select p.*, :has_every_term as has_every
    from among p
   where p.words @@ websearch_to_tsquery('english', %(every)s)
      or p.words @@ websearch_to_tsquery('english', %(heavy)s)
      or p.words @@ websearch_to_tsquery('english', %(light)s)
), :best_candidates;

-- name: hits
-- Return a page of the hits, each with its passage, its artifact or source, the creator and the first
-- sources. A source is part of the best hit that cites it, which takes the better place of the two.
with ranked as materialized (
  select h.subject_id, h.part, h.place
    from json_to_recordset(%(ranked)s::json) as h (subject_id uuid, part integer, place integer)
), cited as materialized (
  select distinct on (l.source_id) l.source_id, r.subject_id as artifact_id, s.place
    from ranked r
    join artifact_source l on l.org_id = :org and l.artifact_id = r.subject_id
    join ranked s on s.subject_id = l.source_id
   order by l.source_id, r.place
), hit as materialized (
  select r.subject_id, r.part, least(r.place, c.place) as place, c.source_ids,
         count(*) over ()::integer as hits
    from ranked r
    left join (select artifact_id, min(place) as place, array_agg(source_id) as source_ids
                 from cited group by artifact_id) c on c.artifact_id = r.subject_id
   where not exists (select from cited where cited.source_id = r.subject_id)
   order by place
  offset %(start)s::integer limit %(most)s::integer
)
select p.subject, p.subject_id::text as id, p.plan_id::text, p.kind, p.body, p.created_at,
       a.step_id::text, coalesce(a.created_by, s.created_by) as created_by, s.url,
       coalesce(a.title, s.title) as title, a.tags, a.version, a.superseded, l.sources,
       l.source_count, to_json(h.source_ids) as matching_sources, h.hits
  from hit h
  join passage p on p.org_id = :org and p.subject_id = h.subject_id and p.part = h.part
  left join artifact a on a.org_id = :org and p.subject = 'artifact' and a.id = p.subject_id
  left join source s on s.org_id = :org and p.subject = 'source' and s.id = p.subject_id
 cross join lateral (
         select json_agg(json_strip_nulls(json_build_object(
                  'sourceId', n.id, 'url', n.url, 'title', n.title,
                  'retrievedAt', n.retrieved_at)) order by n.number)
                  filter (where n.number <= %(sources)s::integer) as sources,
                count(*)::integer as source_count
           from (select t.id, t.url, t.title, l.retrieved_at,
                        row_number() over (order by t.id = any (h.source_ids) desc nulls last,
                                                    l.position) as number
                   from artifact_source l
                   join source t on t.org_id = :org and t.id = l.source_id
                  where l.org_id = :org and l.artifact_id = h.subject_id) n) l
 order by h.place;

-- name: sources_of
-- Each artifact's sources are in the order in which the artifact lists them.
select l.artifact_id::text, s.id::text, s.url, s.title, s.quote, l.retrieved_at
  from artifact_source l
  join source s on s.org_id = :org and s.id = l.source_id
 where l.org_id = :org and l.artifact_id = any (%(ids)s)
 order by l.artifact_id, l.position;

-- name: plan_exists
-- Return whether the plan to search in exists. True if the search is not limited to a plan.
select %(plan_id)s::text is null
    or exists (select from plan where org_id = :org and id = %(plan_id)s::text);
