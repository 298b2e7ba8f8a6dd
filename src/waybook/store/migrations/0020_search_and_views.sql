-- Full-text search over names, instructions, results and documents; saved views of lists.
--
-- Each searchable row has its lexemes in a generated column, and among them the org, so that one
-- index can serve all orgs (decision 0021). The column is stored, because under row-level security
-- an index on an expression serves no condition. Calls of agents write these rows, so the indexes
-- collect new entries in a list, which is merged in batches; the list is short, because every
-- search reads it.

-- Only the beginning of a long text is indexed: a tsvector has at most one megabyte, and a row that
-- exceeds it could not be inserted.
create function app_words(org uuid, body text) returns tsvector
  language sql immutable parallel safe
  return array_to_tsvector(array['@' || org::text])
         || to_tsvector('english', left(coalesce(body, ''), 100000));

-- Names are also indexed without stemming, because a search looks for the beginnings of their words.
create function app_name_words(org uuid, name text) returns tsvector
  language sql immutable parallel safe
  return array_to_tsvector(array['@' || org::text])
         || to_tsvector('simple', left(coalesce(name, ''), 10000))
         || to_tsvector('english', left(coalesce(name, ''), 10000));

-- Values of JSON texts without keys and escapes; of a large text, its beginning as it is.
create function app_json_words(org uuid, body json) returns tsvector
  language sql immutable parallel safe
  return array_to_tsvector(array['@' || org::text])
         || case when length(body::text) <= 100000
                 then json_to_tsvector('english', body, '["string", "numeric"]')
                 else to_tsvector('english', coalesce(left(body::text, 100000), '')) end;

alter table plan
  add column words tsvector generated always as (app_name_words(org_id, name)) stored;
alter table plan_brief
  add column words tsvector generated always as (app_words(org_id, research_question)) stored;
alter table plan_step
  add column words tsvector generated always as (app_name_words(org_id, title)) stored;
alter table step_brief
  add column words tsvector generated always as (app_words(org_id, instructions)) stored;
alter table step_result
  add column words tsvector generated always as (app_json_words(org_id, result_summary)) stored;
alter table run
  add column words tsvector generated always as (app_name_words(org_id, name)) stored;
alter table run_brief
  add column words tsvector generated always as (app_json_words(org_id, input)) stored;
alter table document
  add column words tsvector generated always as (app_words(org_id, content)) stored;

create index plan_words on plan using gin (words) with (gin_pending_list_limit = 256);
create index plan_brief_words on plan_brief using gin (words) with (gin_pending_list_limit = 256);
create index plan_step_words on plan_step using gin (words) with (gin_pending_list_limit = 256);
create index step_brief_words on step_brief using gin (words) with (gin_pending_list_limit = 256);
create index step_result_words on step_result using gin (words) with (gin_pending_list_limit = 256);
create index run_words on run using gin (words) with (gin_pending_list_limit = 256);
create index run_brief_words on run_brief using gin (words) with (gin_pending_list_limit = 256);
create index document_words on document using gin (words) with (gin_pending_list_limit = 256);

-- Filters of a list that a user saved under a name. The user is identified by name, as in the audit,
-- because local mode has no table of users.
create table saved_view (
  org_id      uuid        not null default app_org() references org,
  user_name   text        not null,
  page        text        not null check (page in ('plans', 'runs', 'audit')),
  name        text        not null check (length(name) between 1 and 60),
  query       text        not null check (length(query) between 1 and 1000),
  created_at  timestamptz not null,
  primary key (org_id, user_name, page, name)
);
alter table saved_view enable row level security;
alter table saved_view force row level security;
create policy tenant on saved_view using (org_id = app_org()) with check (org_id = app_org());
grant select, insert, delete on saved_view to waybook_app;
