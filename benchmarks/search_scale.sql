-- Statements that search_scale.py executes as the superuser.

-- name: prepare
-- Under row-level security the full-text index is used only if its operator is leakproof.
alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof;
drop index passage_words;
create schema bare;
create view bare.passage as select * from public.passage where org_id = app_org();
create view bare.passage_embedding as
  select * from public.passage_embedding where org_id = app_org();
create view bare.passage_deletion as
  select * from public.passage_deletion where org_id = app_org();

-- name: prepare_pgvector
drop index passage_vector_near;
create view bare.passage_vector as select * from public.passage_vector where org_id = app_org();

-- name: org
insert into org (org_id, slug) values (%(org)s, %(slug)s);

-- name: passages
copy passage (org_id, subject, subject_id, part, kind, title, body, created_at) from stdin

-- name: portable
copy passage_embedding (org_id, subject_id, part, model, codes) from stdin

-- name: pgvector
copy passage_vector (org_id, subject_id, part, model, embedding) from stdin

-- name: artifacts
insert into artifact (org_id, id, kind, title, content, created_at, created_by, audit_seq,
                      audit_hash)
select org_id, subject_id, kind, title, to_json(body), created_at, 'ann', 0, '' from passage;

-- name: index
create index passage_words on passage using gin (words) with (fastupdate = off);

-- name: index_pgvector
create index passage_vector_near on passage_vector using hnsw (embedding halfvec_ip_ops);

-- name: vacuum
vacuum analyze;
