-- Research: what agents stored, where it came from, and what makes it findable.
--
-- Artifacts and sources are the record. A passage is a piece of one of them as search sees it: it
-- is made from the record and can be made anew, so no audit speaks of it. Its vector, where the
-- server has pgvector, is a table of its own (see `migrate.sql`): narrow, so that comparing all
-- vectors of a small org is as good as an index.

alter table artifact
  add column media_type    text,
  add column tags          json not null default '[]',
  add column metadata      json,
  add column version       integer check (version >= 1),
  add column content_hash  text;

-- What is written again gets the next version; what is never written again has none.
create unique index artifact_version on artifact (org_id, plan_id, kind, title, version)
  where version is not null;

-- The same source stored twice is one row: its id is made of its hash.
create table source (
  org_id        uuid        not null default app_org() references org,
  id            uuid        not null,
  url           text,
  title         text        not null,
  quote         text,
  retrieved_at  timestamptz,
  content_hash  text        not null,
  created_at    timestamptz not null,
  created_by    text        not null,
  primary key (org_id, id),
  unique (org_id, content_hash)
);

create table artifact_source (
  org_id       uuid    not null default app_org(),
  artifact_id  uuid    not null,
  source_id    uuid    not null,
  position     integer not null,
  primary key (org_id, artifact_id, source_id),
  foreign key (org_id, artifact_id) references artifact (org_id, id),
  foreign key (org_id, source_id) references source (org_id, id)
);
create index artifact_source_source on artifact_source (org_id, source_id);

-- The org stands among the words, so that the one index, which knows no orgs, can be asked for
-- the words of one org; no text can contain a word that begins with @.
create table passage (
  org_id      uuid        not null default app_org() references org,
  subject     text        not null check (subject in ('artifact', 'source')),
  subject_id  uuid        not null,
  part        integer     not null check (part >= 1),
  plan_id     uuid,
  kind        text        not null,
  title       text        not null,
  body        text        not null,
  created_at  timestamptz not null,
  words       tsvector    not null generated always as (
                array_to_tsvector(array['@' || org_id::text])
                || setweight(to_tsvector('english', title), 'A')
                || setweight(to_tsvector('english', body), 'B')) stored,
  primary key (org_id, subject_id, part)
);
-- Without a list of what is still to be sorted in: a search must not pay for the last insert.
create index passage_words on passage using gin (words) with (fastupdate = off);
create index passage_time on passage (org_id, created_at desc);
create index passage_plan on passage (org_id, plan_id, created_at desc) where plan_id is not null;
create index passage_kind on passage (org_id, kind, created_at desc);

do $$
declare
  name text;
begin
  foreach name in array array['source', 'artifact_source', 'passage']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I using (org_id = app_org()) with check (org_id = app_org())', name);
  end loop;
end $$;

grant select, insert on source, artifact_source, passage to waybook_app;
-- Made anew when it can be made better.
grant delete on passage to waybook_app;

-- pgvector, where the server has it and we may; without it search goes by words alone.
do $$
begin
  create extension if not exists vector;
exception
  when insufficient_privilege or undefined_file or feature_not_supported then
    null;
end $$;
