-- Embeddings of passages, which the server process compares with a query. Many rows are returned as
-- one value with records of fixed width, so that no object is created per row.

-- name: insert_embeddings
insert into passage_embedding (subject_id, part, model, embedding)
values %(rows)s
    on conflict (org_id, subject_id, part, model) do nothing;

-- name: snapshot
-- In a cluster, this must be read before the embeddings, because the coordinator numbers the
-- transactions that change embeddings.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as running,
       (select b.oid::bigint from pg_database b where b.datname = current_database()) as database,
       extract(epoch from now())::float8 as at;

-- name: page
select string_agg(:embedding_record, '') as blob, :erasures_of_org
  from (select e.subject_id, e.part, e.embedding
          from passage_embedding e
         where e.org_id = :org
           and e.model = %(model)s
           and (e.subject_id, e.part) > (%(subject_id)s::uuid, %(part)s::integer)
         order by e.subject_id, e.part
         limit %(most)s) e;

-- name: fitting_page
-- Return a page of the embeddings that match the filters of a search, in key order.
select string_agg(:embedding_record, '')
  from (select e.subject_id, e.part, e.embedding
          from passage_embedding e
          join passage p on p.org_id = :org and p.subject_id = e.subject_id and p.part = e.part
         where e.org_id = :org
           and e.model = %(model)s
           and (e.subject_id, e.part) > (%(subject_id)s::uuid, %(part)s::integer)
           and :passage_fits
         order by e.subject_id, e.part
         limit %(most)s) e;

-- name: changes
-- Return embeddings added and passages deleted since a transaction, up to a limit each. Rows copied
-- from another server may have transaction ids that are still in the future here. These rows are
-- excluded, except in a cluster, whose nodes do not know the coordinator's ids.
select a.rows as additions, a.blob as added, d.rows as deletions, d.blob as deleted,
       :erasures_of_org
  from (select count(*) as rows, string_agg(:embedding_record, '') as blob
          from (select e.subject_id, e.part, e.embedding
                  from passage_embedding e
                 where e.org_id = :org
                   and e.model = %(model)s and e.added >= %(since)s::bigint
                   and (%(is_cluster)s::boolean
                        or e.added < pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
                 limit %(most)s) e) a,
       (select count(*) as rows, string_agg(uuid_send(d.subject_id) || int4send(d.part), '') as blob
          from (select d.subject_id, d.part
                  from passage_deletion d
                 where d.org_id = :org
                   and d.deleted >= %(since)s::bigint
                   and (%(is_cluster)s::boolean
                        or d.deleted < pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
                 limit %(most)s) d) d;

-- name: few_fitting
-- Return the embeddings that match the filters of a search. If there are many, return only their
-- number.
with fitting as materialized (
  select p.subject_id, p.part
    from passage p
   where p.org_id = :org and :passage_fits
   limit %(few)s::integer + 1
)
select (select count(*) from fitting) as passages,
       (select string_agg(:embedding_record, '')
          from fitting f
          join passage_embedding e on e.org_id = :org
                                     and e.subject_id = f.subject_id and e.part = f.part
         where e.model = %(model)s
           and (select count(*) from fitting) <= %(few)s::integer) as blob;

-- name: among
-- Return the embeddings of a plan and of the sources that its artifacts cite.
with among as (
  :passages_of_plan
  union
  :passages_of_cited_sources
)
select string_agg(:embedding_record, '')
  from among a
  join passage_embedding e on e.org_id = :org and e.subject_id = a.subject_id and e.part = a.part
 where e.model = %(model)s;

-- name: fitting
-- Return the positions in the given list of the first passages that match the filters of a search.
select n.place::integer
  from unnest(%(subjects)s::uuid[], %(parts)s::integer[]) with ordinality
       as n (subject_id, part, place)
  join passage p on p.org_id = :org and p.subject_id = n.subject_id and p.part = n.part
 where :passage_fits
 order by n.place
 limit %(most)s;

-- name: without_embeddings
-- Return passages created since a given time that have no embedding of this model yet.
:passages_to_embed
   and not exists (select from passage_embedding e
                    where e.org_id = :org
                      and e.subject_id = p.subject_id and e.part = p.part
                      and e.model = %(model)s)
 order by p.subject_id, p.part
 limit %(most)s;

-- name: quarantine_passages
-- Passages in quarantine are not indexed for a day. Passages that were deleted meanwhile are
-- skipped.
insert into passage_quarantine (org_id, subject_id, part, model, backend, quarantined_at)
select p.org_id, p.subject_id, p.part, %(model)s, %(backend)s, app_statement_time()
  from unnest(%(subjects)s::uuid[], %(parts)s::integer[]) as n (subject_id, part)
  join passage p on p.org_id = :org and p.subject_id = n.subject_id and p.part = n.part
    on conflict (org_id, subject_id, part, model, backend)
    do update set quarantined_at = excluded.quarantined_at;

-- name: quarantined_passages
-- Return the number of passages in quarantine, and the time of the oldest quarantine.
select count(*) as passages, min(q.quarantined_at) as since
  from passage_quarantine q
 where q.org_id = :org and q.quarantined_at > app_now() - interval '1 day';
