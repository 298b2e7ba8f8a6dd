-- Statements that search_corpus.py executes as the superuser.

-- name: prepare
-- Under row-level security the full-text index is used only if its operator is leakproof.
alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof;
-- Indexes are built after the rows are written, except those that check uniqueness: this is faster.
drop index passage_words;
drop index passage_kind;
drop index passage_plan;
drop index passage_time;
drop index passage_embedding_added;
-- The texts repeat, so the words of each text are computed once and copied to its passages.
alter table passage alter column words drop expression;
-- Foreign keys are not checked, because the check takes longer than writing the rows.
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

-- name: org
insert into org (org_id, slug) values (%(org)s, %(slug)s);

-- name: texts
copy text_pool (n, kind, title, body) from stdin

-- name: words
-- The column `words` of `passage` is computed in the same way, but also contains the org.
alter table text_pool add column words tsvector;
update text_pool
   set words = setweight(to_tsvector('english', title), 'A')
            || setweight(to_tsvector('english', body), 'B');
analyze text_pool;

-- name: passages
-- The ids of orgs and passages are those of `Corpus`.
insert into passage (org_id, subject, subject_id, part, kind, title, body, created_at, words)
select o.org_id, 'artifact',
       ('00000000-0000-7000-9000-' || lpad(to_hex(g.number), 12, '0'))::uuid, 1, t.kind,
       t.title, t.body, to_timestamp(g.number), o.words || t.words
  from generate_series(0, %(all)s - 1) as g (number)
  join (select n.n, i.org_id, array_to_tsvector(array['@' || i.org_id]) as words
          from generate_series(0, %(others)s) as n (n)
         cross join lateral (select ('00000000-0000-7000-8000-' || lpad(to_hex(256 + n.n), 12, '0'))::uuid as org_id) i) o
    on o.n = case when g.number < %(own)s then 0 else 1 + g.number %% %(others)s end
  join text_pool t on t.n = g.number %% %(texts)s

-- name: portable
copy passage_embedding (org_id, subject_id, part, model, added, embedding)
from stdin (format binary)

-- name: pgvector
copy passage_vector (org_id, subject_id, part, model, embedding) from stdin (format binary)

-- name: artifacts
-- Searches do not read artifacts, but a read of one passage by key does, which is measured too.
insert into artifact (org_id, id, kind, title, content, created_at, created_by, audit_seq,
                      audit_hash)
select org_id, subject_id, kind, title, to_json(body), created_at, 'ann', 0, ''
  from passage
 where org_id = '00000000-0000-7000-8000-000000000100'
   and subject_id < '00000000-0000-7000-9000-000000002710';

-- name: index
create index passage_words on passage using gin (words) with (fastupdate = off);
create index passage_kind on passage (org_id, kind, created_at desc);
create index passage_plan on passage (org_id, plan_id, created_at desc) where plan_id is not null;
create index passage_time on passage (org_id, created_at desc);
create index passage_embedding_added on passage_embedding (org_id, model, added);

-- name: index_pgvector
create index passage_vector_near on passage_vector using hnsw (embedding halfvec_ip_ops);

-- name: vacuum
vacuum analyze;
