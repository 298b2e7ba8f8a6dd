-- Semantic search without an extension: quantized embeddings in an ordinary table, ranked in the
-- serving process. A process keeps an org's embeddings in memory and asks only for what changed.
--
-- `added` and `deleted` are the id of the writing transaction. A reader remembers the oldest
-- transaction that was still running in its snapshot, and asks next time for what was written by
-- that one or a later one: nothing is missed, no writer waits for another, and a row that comes
-- twice is recognized by its key.

create function app_transaction() returns bigint
  language sql volatile
  as $$ select pg_current_xact_id()::text::bigint $$;

-- 256 signed bytes; the length of the vector follows from them.
create table passage_embedding (
  org_id      uuid    not null default app_org(),
  subject_id  uuid    not null,
  part        integer not null,
  model       text    not null,
  codes       bytea   not null check (octet_length(codes) = 256),
  added       bigint  not null default app_transaction(),
  primary key (org_id, subject_id, part, model),
  foreign key (org_id, subject_id, part) references passage (org_id, subject_id, part)
    on delete cascade
);
create index passage_embedding_added on passage_embedding (org_id, model, added);

-- Deleted passages, for processes that still have them in memory; kept for two days.
create table passage_deletion (
  org_id      uuid        not null default app_org(),
  deleted     bigint      not null default app_transaction(),
  subject_id  uuid        not null,
  part        integer     not null,
  deleted_at  timestamptz not null default now(),
  primary key (org_id, deleted, subject_id, part)
);

create function note_deleted_passages() returns trigger
  language plpgsql
  as $$
begin
  insert into passage_deletion (org_id, subject_id, part)
  select org_id, subject_id, part from gone
      on conflict do nothing;
  return null;
end $$;

create trigger passage_deleted
  after delete on passage
  referencing old table as gone
  for each statement execute function note_deleted_passages();

-- Passages whose indexing broke the connection twice: left out for a day, and reported.
create table passage_quarantine (
  org_id          uuid        not null default app_org(),
  subject_id      uuid        not null,
  part            integer     not null,
  model           text        not null,
  backend         text        not null check (backend in ('portable', 'pgvector')),
  quarantined_at  timestamptz not null,
  primary key (org_id, subject_id, part, model, backend),
  foreign key (org_id, subject_id, part) references passage (org_id, subject_id, part)
    on delete cascade
);

do $$
declare
  name text;
begin
  foreach name in array array['passage_embedding', 'passage_deletion', 'passage_quarantine']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I using (org_id = app_org()) with check (org_id = app_org())', name);
  end loop;
end $$;

grant select, insert on passage_embedding, passage_deletion to waybook_app;
grant select, insert, update on passage_quarantine to waybook_app;
