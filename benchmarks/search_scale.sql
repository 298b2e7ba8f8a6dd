-- What search_scale.py asks for as the superuser.

-- name: orgs
insert into org (org_id, slug)
select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'org-' || n
  from generate_series(100, 99 + %(orgs)s) n;

-- name: clear_indexes
drop index passage_words, passage_vector_near;

-- name: passages
copy passage (org_id, subject, subject_id, part, kind, title, body, created_at) from stdin;

-- name: artifacts
insert into artifact (org_id, id, kind, title, content, created_at, created_by, audit_seq,
                      audit_hash)
select org_id, subject_id, kind, title, to_json(body), created_at, 'ann', 0, '' from passage;

-- name: samples
create temporary table sample (topic integer, n integer, embedding vector(256));

-- name: homes
create temporary table home (org_id uuid primary key, direction halfvec(32));

-- name: vectors
-- Each passage lies between two samples of its topic; whose it is stands behind what it means.
insert into passage_vector (org_id, subject_id, part, model, embedding)
select p.org_id, p.subject_id, p.part, %(model)s,
       l2_normalize(a.embedding + b.embedding)::halfvec(256) || h.direction
  from (select *, extract(epoch from created_at)::integer as number from passage) p
  join home h on h.org_id = p.org_id
  join sample a on a.topic = p.number %% %(topics)s
               and a.n = p.number / %(topics)s %% %(samples)s
  join sample b on b.topic = a.topic
               and b.n = (a.n + 1 + p.number / %(topics)s / %(samples)s) %% %(samples)s;

-- name: indexes
create index passage_words on passage using gin (words) with (fastupdate = off);
create index passage_vector_near on passage_vector using hnsw (embedding halfvec_ip_ops);
vacuum analyze passage, passage_vector, artifact;

-- name: bare
-- The same tables without row-level security, for the superuser: plain conditions on the org.
create schema bare;
create view bare.passage as select * from public.passage where org_id = app_org();
create view bare.passage_vector as select * from public.passage_vector where org_id = app_org();

-- name: truth
select v.subject_id::text from passage_vector v where v.org_id = %(org)s
 order by (v.embedding <#> %(embedding)s::halfvec) + 0, v.subject_id
 limit %(most)s;
