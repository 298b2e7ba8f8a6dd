-- Statements that search_scale.py executes as the superuser.

-- name: prepare
-- Under row-level security the full-text index is used only if its operator is leakproof.
alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof;
drop index passage_words;
-- Foreign keys are not checked, because this takes longer than the rows.
set session_replication_role = replica;
create temporary table text_pool (n bigint primary key, kind text, title text, body text);
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

-- name: texts
copy text_pool (n, kind, title, body) from stdin

-- name: passages
-- The ids of orgs and passages are those of `Corpus`.
insert into passage (org_id, subject, subject_id, part, kind, title, body, created_at)
select ('00000000-0000-7000-8000-'
        || lpad(to_hex(256 + case when number < %(own)s then 0 else 1 + number %% %(others)s end), 12, '0'))::uuid,
       'artifact', ('00000000-0000-7000-9000-' || lpad(to_hex(number), 12, '0'))::uuid, 1, t.kind,
       t.title, t.body, to_timestamp(number)
  from generate_series(0, %(all)s - 1) as g (number)
  join text_pool t on t.n = number %% (select count(*) from text_pool)

-- name: portable
copy passage_embedding (org_id, subject_id, part, model, codes) from stdin (format binary)

-- name: pgvector
copy passage_vector (org_id, subject_id, part, model, embedding) from stdin (format binary)

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
