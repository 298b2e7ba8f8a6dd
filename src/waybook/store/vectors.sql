-- Only where the server has pgvector: the table is there, or none of this is ever run.

-- name: insert_vectors
insert into passage_vector (subject_id, part, model, embedding)
values %(rows)s
    on conflict (org_id, subject_id, part, model) do nothing;

-- name: nearest_vectors
-- The nearest passages of the whole org. Where there are few, all are compared, by the indexes
-- that begin with the org; where there are many, the index of vectors is walked. The `+ 0` keeps
-- the former from taking the latter's way.
with size as materialized (
  select count(*) as passages
    from (select from passage p
           where :passage_fits
           limit %(few)s::integer + 1) counted
), compared as (
  select v.subject_id, v.part, v.embedding <#> %(embedding)s::halfvec as distance
    from passage p
    join passage_vector v on v.subject_id = p.subject_id and v.part = p.part
   where (select passages from size) <= %(few)s::integer
     and v.model = %(model)s
     and :passage_fits
   order by (v.embedding <#> %(embedding)s::halfvec) + 0
   limit %(most)s
), walked as (
  select v.subject_id, v.part, v.embedding <#> %(embedding)s::halfvec as distance
    from passage_vector v
    join passage p on p.subject_id = v.subject_id and p.part = v.part
   where (select passages from size) > %(few)s::integer
     and v.model = %(model)s
     and :passage_fits
   order by v.embedding <#> %(embedding)s::halfvec
   limit %(most)s
)
select n.subject_id::text, n.part, -n.distance
  from (select * from compared union all select * from walked) n
 order by n.distance, n.subject_id, n.part;

-- name: nearest_vectors_in_plan
-- The nearest passages of a plan and of the sources its artifacts came from.
with among as (
  (select p.subject_id, p.part
     from passage p
    where p.plan_id = %(plan_id)s::uuid
      and :passage_fits
    order by p.created_at desc
    limit %(newest)s)
  union all
  (select p.subject_id, p.part
     from :sources_of_plan l
     join passage p on p.subject_id = l.source_id
    where :passage_fits
    limit %(newest)s)
)
select v.subject_id::text, v.part, -(v.embedding <#> %(embedding)s::halfvec) as nearness
  from among a
  join passage_vector v on v.subject_id = a.subject_id and v.part = a.part
 where v.model = %(model)s
 order by (v.embedding <#> %(embedding)s::halfvec) + 0, v.subject_id, v.part
 limit %(most)s;

-- name: without_vectors
-- Passages since then that have no vector of this model yet.
select p.subject_id::text, p.part, p.title, p.body
  from passage p
 where (%(since)s::timestamptz is null or p.created_at >= %(since)s)
   and not exists (select from passage_vector v
                    where v.subject_id = p.subject_id and v.part = p.part
                      and v.model = %(model)s)
   and not :quarantined
 order by p.subject_id, p.part
 limit %(most)s;
