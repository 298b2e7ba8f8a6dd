-- Quantized embeddings of passages, ranked in the serving process.
-- Many rows travel as one: packed one behind the other, in a fixed width each, which is read
-- without making an object of every value.

-- name: insert_embeddings
insert into passage_embedding (subject_id, part, model, codes)
values %(rows)s
    on conflict (org_id, subject_id, part, model) do nothing;

-- name: page
-- A page of all embeddings in the order of their keys.
select string_agg(:packed_embedding, '') as packed, :snapshot
  from (select e.subject_id, e.part, e.codes
          from passage_embedding e
         where e.model = %(model)s
           and (e.subject_id, e.part) > (%(subject_id)s::uuid, %(part)s::integer)
         order by e.subject_id, e.part
         limit %(most)s) e;

-- name: fitting_page
-- The same of what a search was narrowed to.
select string_agg(:packed_embedding, '')
  from (select e.subject_id, e.part, e.codes
          from passage_embedding e
          join passage p on p.subject_id = e.subject_id and p.part = e.part
         where e.model = %(model)s
           and (e.subject_id, e.part) > (%(subject_id)s::uuid, %(part)s::integer)
           and :passage_fits
         order by e.subject_id, e.part
         limit %(most)s) e;

-- name: changes
-- Embeddings added and passages deleted since a transaction, at most so many of each. Rows that
-- were copied from another server may have ids of transactions that are yet to come here.
select a.rows as additions, a.packed as added, d.rows as deletions, d.packed as deleted, :snapshot
  from (select count(*) as rows, string_agg(:packed_embedding, '') as packed
          from (select e.subject_id, e.part, e.codes
                  from passage_embedding e
                 where e.model = %(model)s and e.added >= %(since)s::bigint
                   and e.added < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
                 limit %(most)s) e) a,
       (select count(*) as rows, string_agg(uuid_send(d.subject_id) || int4send(d.part), '') as packed
          from (select d.subject_id, d.part
                  from passage_deletion d
                 where d.deleted >= %(since)s::bigint
                   and d.deleted < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
                 limit %(most)s) d) d;

-- name: few_fitting
-- The embeddings of what a search was narrowed to, where these are few: else only how many.
with fitting as materialized (
  select p.subject_id, p.part
    from passage p
   where :passage_fits
   limit %(few)s::integer + 1
)
select (select count(*) from fitting) as passages,
       (select string_agg(:packed_embedding, '')
          from fitting f
          join passage_embedding e on e.subject_id = f.subject_id and e.part = f.part
         where e.model = %(model)s
           and (select count(*) from fitting) <= %(few)s::integer) as packed;

-- name: among
-- The embeddings of a plan and of the sources its artifacts came from.
with among as (
  (select p.subject_id, p.part
     from passage p
    where p.plan_id = %(plan_id)s::uuid
      and :passage_fits
    order by p.created_at desc
    limit %(newest)s)
  union
  (select p.subject_id, p.part
     from :sources_of_plan l
     join passage p on p.subject_id = l.source_id
    where :passage_fits
    limit %(newest)s)
)
select string_agg(:packed_embedding, '')
  from among a
  join passage_embedding e on e.subject_id = a.subject_id and e.part = a.part
 where e.model = %(model)s;

-- name: which_fit
-- Those of some passages that a search was narrowed to, by their place in the list.
select n.place::integer
  from unnest(%(subjects)s::uuid[], %(parts)s::integer[]) with ordinality
       as n (subject_id, part, place)
  join passage p on p.subject_id = n.subject_id and p.part = n.part
 where :passage_fits;

-- name: without_embeddings
-- Passages since then that have no embedding of this model yet.
:passages_to_embed
   and not exists (select from passage_embedding e
                    where e.subject_id = p.subject_id and e.part = p.part
                      and e.model = %(model)s)
 order by p.subject_id, p.part
 limit %(most)s;

-- name: quarantine_passages
-- Passages of this org are set aside; those deleted meanwhile, or of another org, are passed over.
insert into passage_quarantine (subject_id, part, model, backend, quarantined_at)
select p.subject_id, p.part, %(model)s, %(backend)s, app_now()
  from unnest(%(subjects)s::uuid[], %(parts)s::integer[]) as n (subject_id, part)
  join passage p on p.subject_id = n.subject_id and p.part = n.part
    on conflict (org_id, subject_id, part, model, backend)
    do update set quarantined_at = excluded.quarantined_at;

-- name: quarantined_passages
-- How many passages are set aside, and since when.
select count(*) as passages, min(q.quarantined_at) as since
  from passage_quarantine q
 where q.quarantined_at > app_now() - interval '1 day';
