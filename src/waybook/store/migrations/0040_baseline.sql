-- Oldest compatible migration: 0040
--
-- The whole schema of the first release. The numbers before it belong to databases of earlier
-- builds, which this program refuses.
--
-- Every table belongs to one org: its keys begin with org_id, and row-level security, forced,
-- shows a transaction only the rows of the org that it has set with `set local app.org_id`.
--
-- Ids of plans, steps, runs, jobs and reviews are short texts, see core/ids.py. They are compared
-- byte by byte, and sort by creation time.

create function app_org() returns uuid
  language sql stable parallel safe
  return nullif(current_setting('app.org_id', true), '')::uuid;

-- The clock. A test may freeze it for one transaction; nothing else sets app.now.
create function app_now() returns timestamptz
  language sql volatile parallel safe
  return coalesce(nullif(current_setting('app.now', true), '')::timestamptz, clock_timestamp());

-- Time at which the statement began, for updates; `app_now()` returns the current time and is
-- therefore volatile. It is not written in SQL, because PostgreSQL would insert its body into the
-- update, and Citus refuses stable functions within `coalesce`.
create function app_statement_time() returns timestamptz
  language plpgsql stable parallel safe
  as $$
begin
  return coalesce(nullif(current_setting('app.now', true), '')::timestamptz, statement_timestamp());
end $$;

-- Fails the whole message unless the condition holds, so that nothing of it is written. The code is
-- the SQLSTATE of the error; `store/driver/wire.py` lists the codes. Immutable, like the division
-- by zero of a constant, so that a cluster accepts it in a statement that writes.
create function app_refuse_unless(condition boolean, code text) returns boolean
  language plpgsql immutable parallel safe
  as $$
begin
  if condition is not true then
    raise exception using errcode = code, message = 'a condition of this message does not hold';
  end if;
  return true;
end $$;

-- Stable, because a cluster would evaluate a volatile function on each node, but the tables store
-- numbers of the coordinator.
create function app_transaction() returns bigint
  language sql stable
  as $$ select pg_current_xact_id()::text::bigint $$;

-- Hash of the secret that a caller presented. A credential is stored as the SHA-256 of its secret,
-- and a transaction that has set no org sees the one row whose hash it has set here.
create function app_secret_hash() returns bytea
  language sql stable parallel safe
  return decode(nullif(current_setting('app.secret_hash', true), ''), 'hex');

-- The following functions are written in PL/pgSQL, because PostgreSQL parses their bodies once per
-- connection. It reads the expressions of checks and generated columns from the catalog and plans
-- them in each statement that writes the table, together with the bodies of SQL functions.

-- Lexemes for full-text search, among them the org, so that one index can serve all orgs. Only the
-- beginning of a long text is indexed: a tsvector has at most one megabyte, and a row that exceeds
-- it could not be inserted. Calls of agents write these rows, so the indexes collect new entries
-- in a list, which is merged in batches; the list is short, because every search reads it.
create function app_words(org uuid, body text) returns tsvector
  language plpgsql immutable parallel safe
as $$
begin
  return array_to_tsvector(array['@' || org::text])
         || to_tsvector('english', left(coalesce(body, ''), 100000));
end $$;

-- Names are also indexed without stemming, because a search looks for the beginnings of their
-- words.
create function app_name_words(org uuid, name text) returns tsvector
  language plpgsql immutable parallel safe
as $$
begin
  return array_to_tsvector(array['@' || org::text])
         || to_tsvector('simple', left(coalesce(name, ''), 10000))
         || to_tsvector('english', left(coalesce(name, ''), 10000));
end $$;

-- Values of JSON texts without keys and escapes; of a large text, its beginning as it is.
create function app_json_words(org uuid, body json) returns tsvector
  language plpgsql immutable parallel safe
as $$
begin
  return array_to_tsvector(array['@' || org::text])
         || case when length(body::text) <= 100000
                 then json_to_tsvector('english', body, '["string", "numeric"]')
                 else to_tsvector('english', coalesce(left(body::text, 100000), '')) end;
end $$;

create function app_name_parts(name text) returns text[]
  language sql immutable parallel safe
  return array(select distinct left(w.word, 60) collate "C"
                 from unnest(regexp_split_to_array(lower(left(coalesce(name, ''), 1000)),
                                                   '[[:space:]!-/:-@[-`{-~]+')) as w (word)
                where w.word <> ''
                limit 40);

create function app_is_plan(status text, completed_at timestamptz) returns boolean
  language plpgsql immutable parallel safe
as $$
begin
  return status = any (case when completed_at is null
                            then '{planning,executing,awaiting_review,stalled}'
                            else '{completed,failed}' end::text[]);
end $$;

create function app_is_step(step_order integer, attempt integer, max_attempts smallint,
                            silent_holders smallint, status text, in_progress_since timestamptz,
                            completed_at timestamptz) returns boolean
  language plpgsql immutable parallel safe
as $$
begin
  return least(step_order, attempt, max_attempts, silent_holders) >= 1
         and status = any (case when completed_at is not null then '{completed,skipped}'
                                when in_progress_since is null then '{pending,awaiting_input,failed}'
                                else '{pending,in_progress,awaiting_input,failed}' end::text[]);
end $$;

create function app_is_job(attempt integer, tries integer, part integer, job_type text,
                           has_unit boolean, status text, completed_at timestamptz) returns boolean
  language plpgsql immutable parallel safe
as $$
begin
  return least(attempt, tries, part - 1) >= 0
         and job_type = any (case when has_unit then '{PLAN,EXECUTE}' else '{RENDER}' end::text[])
         and status = any (case when completed_at is null
                                then '{pending,processing,retrying,waiting}'
                                else '{completed,failed,retry_loop_failed,superseded}' end::text[]);
end $$;

create function app_is_event(event text) returns boolean
  language plpgsql immutable parallel safe
as $$
begin
  return event = any ('{step_started,step_completed,step_failed,plan_modified,user_reviewed,'
                      'session_resumed,skill_started,skill_completed}'::text[]);
end $$;

create table org (
  org_id         uuid        not null,
  slug           text        not null,
  created_at     timestamptz not null default now(),
  name           text,
  review_policy  text        not null default 'relayed'
                 check (review_policy in ('relayed', 'human')),
  erasures       integer     not null default 0,
  erasure_hash   bytea,
  audit_seq      integer     not null default 0,
  audit_hash     bytea,
  primary key (org_id),
  unique (slug)
);

-- Users of an org, their tokens and their browser sessions. `name` identifies a user in the audit;
-- `issuer` and `subject` are those of the sign-in provider.
create table org_user (
  org_id       uuid        not null default app_org() references org,
  id           uuid        not null,
  name         text        not null,
  email        text,
  issuer       text,
  subject      text,
  scopes       text[]      not null,
  created_at   timestamptz not null,
  created_by   text        not null,
  disabled_at  timestamptz,
  primary key (org_id, id),
  unique (org_id, name),
  unique (org_id, issuer, subject),
  check ((issuer is null) = (subject is null))
);

create table api_token (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  user_id       uuid        not null,
  label         text        not null,
  hash          bytea       not null check (length(hash) = 32),
  scopes        text[]      not null check (cardinality(scopes) > 0),
  created_at    timestamptz not null,
  created_by    text        not null,
  expires_at    timestamptz,
  last_used_at  timestamptz,
  revoked_at    timestamptz,
  revoked_by    text,
  primary key (org_id, id),
  foreign key (org_id, user_id) references org_user (org_id, id)
);
create index api_token_hash on api_token (hash);
create index api_token_user on api_token (org_id, user_id);

create table web_session (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  user_id       uuid        not null,
  token_id      uuid,
  hash          bytea       not null check (length(hash) = 32),
  created_at    timestamptz not null,
  last_seen_at  timestamptz not null,
  expires_at    timestamptz not null,
  ended_at      timestamptz,
  primary key (org_id, id),
  foreign key (org_id, token_id) references api_token (org_id, id),
  foreign key (org_id, user_id) references org_user (org_id, id)
);
create index web_session_hash on web_session (hash);
create index web_session_user on web_session (org_id, user_id);

create table skill_execution (
  org_id                   uuid        not null default app_org() references org,
  id                       uuid        not null,
  skill                    text        not null,
  session                  text,
  status                   text        not null check (status in ('started', 'completed')),
  output_media_type        text,
  formatting_instructions  text,
  started_at               timestamptz not null,
  started_by               text        not null,
  completed_at             timestamptz,
  outcome                  text,
  audit_seq                integer     not null,
  audit_hash               bytea       not null,
  primary key (org_id, id)
);
create index skill_execution_session on skill_execution (org_id, session, started_at);

-- State that changes often is apart from large texts: `plan` and `plan_step` hold state, and
-- `plan_brief`, `step_brief` and `step_result` hold texts.
--
-- Plans are listed by activity. An index on `updated_at` itself would change with every step, and
-- PostgreSQL could no longer update the row in place (HOT); the minute changes at most once a
-- minute. It is a generated column, because under row-level security an index serves a condition
-- only if its functions are leakproof, and the function of an expression is not.
--
-- `stall_check_at` is the time before which no step of the plan can stall; null if the plan is not
-- executing or no step was in progress at the last check. Calls of agents seldom change it.
create table plan (
  org_id          uuid        not null default app_org() references org,
  id              text collate "C" not null,
  name            text        not null,
  status          text        not null,
  revision        integer     not null,
  stall_seconds   integer,
  resumed_at      timestamptz,
  completed_at    timestamptz,
  fail_reason     text,
  audit_seq       integer     not null,
  audit_hash      bytea       not null,
  updated_at      timestamptz not null,
  usage           json,
  budget          json,
  active_minute   timestamp   not null generated always as (
                  date_bin('1 minute', updated_at at time zone 'UTC', timestamp '2000-01-01')
                  ) stored,
  words           tsvector    generated always as (app_name_words(org_id, name)) stored,
  stall_check_at  timestamptz,
  canceled        boolean     check (not canceled or status = 'failed'),
  primary key (org_id, id),
  constraint plan_state check (app_is_plan(status, completed_at))
) with (fillfactor = 85);
-- On a table without statistics, several indexes seem to cost the same, and the newest is used. So
-- the order of the indexes matters, and those that must not serve a lookup by id do not begin with
-- the org. Before a table is analyzed, such a lookup would otherwise read all rows of the org.
create index plan_open on plan (org_id, id) where completed_at is null;
create index plan_open_activity on plan (org_id, active_minute) where completed_at is null;
create index plan_words on plan using gin (words) with (gin_pending_list_limit = 256);
create index plan_stall_check on plan (org_id, stall_check_at) where stall_check_at is not null;
create index plan_ended on plan (org_id, completed_at) where completed_at is not null;
create index plan_failed on plan (org_id, completed_at) where status = 'failed';
-- After `plan_ended`: without statistics, it is the index used for lists by activity.
create index plan_closed_activity on plan (org_id, active_minute) where completed_at is not null;
create index plan_status on plan (status, org_id, id);
create index plan_canceled_idx on plan (org_id, id) where canceled;

create table plan_brief (
  org_id              uuid        not null default app_org(),
  plan_id             text collate "C" not null,
  research_question   text        not null,
  formatting_notes    text,
  skill_execution_id  uuid,
  created_at          timestamptz not null,
  created_by          text        not null,
  copied_from         text collate "C",
  copied_seq          integer     check (copied_seq >= 1),
  words               tsvector    generated always as (app_words(org_id, research_question)) stored,
  sequential          boolean,
  primary key (org_id, plan_id),
  foreign key (org_id, plan_id) references plan (org_id, id),
  constraint plan_brief_origin_whole check ((copied_from is null) = (copied_seq is null))
);
create index plan_brief_words on plan_brief using gin (words) with (gin_pending_list_limit = 256);
create index plan_creator on plan_brief (created_by, org_id, plan_id);

-- Words of the names of plans. Under row-level security, an index serves comparisons of texts on
-- every server, but the full-text operators only where they are marked as leakproof. A name never
-- changes.
create table plan_word (
  org_id   uuid             not null default app_org(),
  word     text collate "C" not null,
  plan_id  text collate "C" not null,
  primary key (org_id, word, plan_id)
);

create table plan_step (
  org_id             uuid        not null default app_org(),
  id                 text collate "C" not null,
  plan_id            text collate "C" not null,
  step_order         integer     not null,
  step_type          text        not null,
  title              text,
  status             text        not null,
  attempt            integer     not null,
  stall_seconds      integer,
  in_progress_since  timestamptz,
  last_seen_at       timestamptz,
  completed_at       timestamptz,
  held_by            text,
  held_session       text,
  fail_reason        text,
  depends_on         text[] collate "C",
  max_attempts       smallint,
  silent_holders     smallint,
  copied_from        text collate "C",
  words              tsvector    generated always as (app_name_words(org_id, title)) stored,
  answers_revision   integer,
  primary key (org_id, id),
  constraint plan_step_place unique (plan_id, org_id, step_order) deferrable initially deferred,
  foreign key (org_id, plan_id) references plan (org_id, id),
  constraint plan_step_state check (app_is_step(step_order, attempt, max_attempts, silent_holders,
                                                status, in_progress_since, completed_at))
) with (fillfactor = 85);
-- A failed step always has a reason. The condition does not name the status, because then no
-- change of a step's status could be made in place.
create index plan_step_failed on plan_step (org_id, plan_id) where fail_reason is not null;
create index plan_step_words on plan_step using gin (words) with (gin_pending_list_limit = 256);

create table step_brief (
  org_id            uuid     not null default app_org(),
  step_id           text collate "C" not null,
  instructions      text     not null,
  result_schema     json,
  required_sources  smallint check (required_sources between 1 and 50),
  words             tsvector generated always as (app_words(org_id, instructions)) stored,
  primary key (org_id, step_id),
  foreign key (org_id, step_id) references plan_step (org_id, id)
);
create index step_brief_words on step_brief using gin (words) with (gin_pending_list_limit = 256);

-- Inserted once, when a step completes. `json` keeps every number as it was written.
create table step_result (
  org_id            uuid             not null default app_org(),
  step_id           text collate "C" not null,
  result_summary    json,
  confidence        double precision,
  report            json,
  formatting_notes  text,
  words             tsvector         generated always as (
                      app_json_words(org_id, result_summary)) stored,
  primary key (org_id, step_id),
  foreign key (org_id, step_id) references plan_step (org_id, id)
);
create index step_result_words on step_result
  using gin (words) with (gin_pending_list_limit = 256);

-- `target_step_id` has no foreign key: a target may be removed once no condition can skip to it.
create table branching_condition (
  org_id          uuid     not null default app_org(),
  id              uuid     not null,
  plan_id         text collate "C" not null,
  step_id         text collate "C" not null,
  position        integer  not null,
  expression      text     not null,
  action          text     not null
                  check (action in ('continue', 'skip_to', 'add_steps', 'repeat', 'fail')),
  target_step_id  text collate "C",
  steps           json,
  reason          text,
  outcome         text     check (outcome in ('fired', 'not_fired', 'error')),
  from_step_id    text collate "C",
  max_repeats     smallint check (max_repeats >= 1),
  repeats         smallint check (repeats >= 1),
  on_exhausted    text     check (on_exhausted in ('continue', 'review', 'fail')),
  cause           json,
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id),
  foreign key (org_id, step_id) references plan_step (org_id, id)
);
create index branching_condition_plan on branching_condition (org_id, plan_id, position);
create index branching_condition_step on branching_condition (org_id, step_id);

-- Reviews and artifacts are history: they outlive a step that is removed later.
create table review (
  org_id          uuid        not null default app_org(),
  id              text collate "C" not null,
  plan_id         text collate "C" not null,
  step_id         text collate "C" not null,
  summary         text        not null,
  questions       json        not null,
  result_summary  json,
  requested_at    timestamptz not null,
  requested_by    text        not null,
  decision        text        check (decision in ('approve', 'reject', 'modify', 'skip')),
  feedback        text,
  decided_at      timestamptz,
  decided_by      text,
  decided_via     text,
  requested_as    text,
  decided_as      text,
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id),
  check ((decision is null) = (decided_at is null))
);
create unique index review_open on review (org_id, plan_id) where decision is null;
create index review_plan on review (org_id, plan_id, requested_at);
create index review_waiting on review (org_id, requested_at, id) where decision is null;

create table plan_session (
  org_id   uuid        not null default app_org(),
  plan_id  text collate "C" not null,
  session  text        not null,
  seen_at  timestamptz not null,
  primary key (org_id, plan_id, session),
  foreign key (org_id, plan_id) references plan (org_id, id)
);

-- Runs of workflows. `stage_step` holds how many units of a step are done and failed, written in
-- the transaction that ends a unit, so that progress is read without reading jobs.
create table dag_definition (
  org_id      uuid        not null default app_org() references org,
  slug        text        not null,
  version     integer     not null check (version >= 1),
  name        text        not null,
  body        json        not null,
  body_hash   bytea       not null,
  created_at  timestamptz not null,
  created_by  text        not null,
  primary key (org_id, slug, version)
);

create table run (
  org_id          uuid        not null default app_org() references org,
  id              text collate "C" not null,
  name            text        not null,
  dag_slug        text        not null,
  dag_version     integer     not null,
  completed_at    timestamptz,
  audit_seq       integer     not null,
  audit_hash      bytea       not null,
  updated_at      timestamptz not null,
  usage           json,
  canceled_at     timestamptz,
  canceled_by     text,
  cancel_reason   text,
  copied_from     text collate "C",
  copied_seq      integer     check (copied_seq >= 1),
  words           tsvector    generated always as (app_name_words(org_id, name)) stored,
  awaiting_since  timestamptz,
  active_minute   timestamp   not null generated always as (
                  date_bin('1 minute', updated_at at time zone 'UTC', timestamp '2000-01-01')
                  ) stored,
  lists           json,
  primary key (org_id, id),
  foreign key (org_id, dag_slug, dag_version) references dag_definition (org_id, slug, version),
  constraint run_cancellation_whole check ((canceled_at is null) = (canceled_by is null)
                                           and (canceled_at is null) = (cancel_reason is null)),
  constraint run_ends_once check (canceled_at is null or completed_at is null),
  constraint run_origin_whole check ((copied_from is null) = (copied_seq is null))
) with (fillfactor = 85);
create index run_open on run (org_id, id) where completed_at is null and canceled_at is null;
create index run_completed on run (org_id, completed_at) where completed_at is not null;
create index run_canceled on run (org_id, canceled_at) where canceled_at is not null;
create index run_words on run using gin (words) with (gin_pending_list_limit = 256);
create index run_awaiting on run (org_id, awaiting_since, id) where awaiting_since is not null;
create index run_open_activity on run (org_id, active_minute)
  where completed_at is null and canceled_at is null;
create index run_ended_activity on run (org_id, active_minute)
  where completed_at is not null or canceled_at is not null;

create table run_brief (
  org_id      uuid        not null default app_org(),
  run_id      text collate "C" not null,
  input       json        not null,
  created_at  timestamptz not null,
  created_by  text        not null,
  words       tsvector    generated always as (app_json_words(org_id, input)) stored,
  primary key (org_id, run_id),
  foreign key (org_id, run_id) references run (org_id, id)
);
create index run_brief_words on run_brief using gin (words) with (gin_pending_list_limit = 256);

create table run_word (
  org_id  uuid             not null default app_org(),
  word    text collate "C" not null,
  run_id  text collate "C" not null,
  primary key (org_id, word, run_id)
);

create table stage_run (
  org_id        uuid        not null default app_org(),
  run_id        text collate "C" not null,
  stage_slug    text        not null,
  models        json        not null,
  prior         json        not null,
  started_at    timestamptz not null,
  completed_at  timestamptz,
  feedback      text,
  feedback_at   timestamptz,
  feedback_by   text,
  primary key (org_id, run_id, stage_slug),
  foreign key (org_id, run_id) references run (org_id, id),
  check ((feedback is null) = (feedback_at is null)),
  check (feedback is null or completed_at is not null)
);

create table stage_step (
  org_id      uuid        not null default app_org(),
  run_id      text collate "C" not null,
  stage_slug  text        not null,
  step_key    text        not null,
  total       integer     not null check (total >= 0),
  done        integer     not null,
  failed      integer     not null,
  opened_at   timestamptz not null,
  closed_at   timestamptz,
  primary key (org_id, run_id, stage_slug, step_key),
  foreign key (org_id, run_id, stage_slug) references stage_run (org_id, run_id, stage_slug),
  check (done >= 0 and failed >= 0 and done + failed <= total)
) with (fillfactor = 70);
-- The condition does not name the closing time, because then most changes of a step could not be
-- made in place.
create index stage_step_failed on stage_step (org_id, run_id) where failed > 0;

create table job (
  org_id        uuid        not null default app_org(),
  id            text collate "C" not null,
  run_id        text collate "C" not null,
  stage_slug    text        not null,
  step_key      text        not null,
  job_type      text        not null,
  model         text        not null,
  rank          integer     not null,
  unit          json,
  status        text        not null,
  attempt       integer     not null,
  tries         integer     not null,
  ready_at      timestamptz not null,
  seen_at       timestamptz,
  held_by       text,
  held_session  text,
  started_at    timestamptz,
  completed_at  timestamptz,
  error         text,
  continues_id  text collate "C",
  part          integer     not null,
  document_id   uuid,
  counted       boolean     not null,
  primary key (org_id, id),
  foreign key (org_id, run_id, stage_slug) references stage_run (org_id, run_id, stage_slug),
  constraint job_state check (app_is_job(attempt, tries, part, job_type, unit is not null, status,
                                         completed_at))
) with (fillfactor = 70);
create index job_open on job (org_id, run_id, rank, id)
  where completed_at is null and job_type <> 'RENDER';
create index job_open_for_model on job (org_id, run_id, model, rank, id)
  where completed_at is null and job_type <> 'RENDER';
create index job_to_render on job (org_id, run_id, id)
  where completed_at is null and job_type = 'RENDER';
create index job_failed on job (org_id, run_id, stage_slug, step_key)
  where status in ('failed', 'retry_loop_failed');
create index job_holder on job (org_id, held_by, held_session, run_id) where status = 'processing';
create index job_of_run on job (run_id, org_id);

create table job_part (
  org_id        uuid    not null default app_org(),
  job_id        text collate "C" not null,
  run_id        text collate "C" not null,
  part          integer not null,
  content       text    not null,
  content_hash  text    not null,
  primary key (org_id, job_id),
  foreign key (org_id, job_id) references job (org_id, id)
);
create index job_part_of_run on job_part (org_id, run_id);

create table document (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  run_id        text collate "C" not null,
  stage_slug    text        not null,
  step_key      text        not null,
  job_id        text collate "C" not null,
  document_key  text        not null,
  model         text        not null,
  lineage       text        not null,
  reviewer      text,
  version       integer     not null check (version >= 1),
  content       text        not null,
  content_hash  text        not null,
  created_at    timestamptz not null,
  copied_from   uuid,
  words         tsvector    generated always as (app_words(org_id, content)) stored,
  primary key (org_id, id),
  foreign key (org_id, job_id) references job (org_id, id)
);
create index document_words on document using gin (words) with (gin_pending_list_limit = 256);
-- Only documents that were made again, so that a page of a run finds at once that there are none.
create index document_newer on document (org_id, run_id) where version > 1;
create unique index document_place on document
  (run_id, org_id, stage_slug, document_key, step_key, model, lineage, coalesce(reviewer, ''),
   version);

create table rendered_document (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  run_id        text collate "C" not null,
  document_id   uuid        not null,
  job_id        text collate "C" not null,
  markdown      text        not null,
  html          text        not null,
  content_hash  text        not null,
  created_at    timestamptz not null,
  primary key (org_id, id),
  unique (org_id, document_id),
  foreign key (org_id, document_id) references document (org_id, id),
  foreign key (org_id, job_id) references job (org_id, id)
);
create index rendered_document_run on rendered_document (org_id, run_id);

create table late_result (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  run_id        text collate "C" not null,
  job_id        text collate "C" not null,
  attempt       integer     not null,
  content       text        not null,
  content_hash  text        not null,
  created_at    timestamptz not null,
  created_by    text        not null,
  primary key (org_id, id),
  foreign key (org_id, job_id) references job (org_id, id)
);
create index late_result_run on late_result (org_id, run_id);

-- Research: what agents stored, and its sources. The same source stored twice is one row, because
-- its id is derived from its hash. An artifact that is stored again gets the next version.
create table source (
  org_id        uuid        not null default app_org() references org,
  id            uuid        not null,
  url           text,
  title         text        not null,
  quote         text,
  content_hash  text        not null,
  created_at    timestamptz not null,
  created_by    text        not null,
  primary key (org_id, id),
  unique (org_id, content_hash)
);

create table artifact (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  plan_id       text collate "C",
  step_id       text collate "C",
  kind          text        not null,
  title         text        not null,
  content       json        not null,
  superseded    boolean     not null default false,
  created_at    timestamptz not null,
  created_by    text        not null,
  media_type    text,
  tags          json        not null default '[]',
  metadata      json,
  version       integer     check (version >= 1),
  content_hash  text,
  audit_seq     integer,
  audit_hash    bytea,
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id),
  constraint artifact_chain check (plan_id is not null or audit_hash is not null)
);
create index artifact_plan on artifact (org_id, plan_id, created_at);
create unique index artifact_version on artifact (org_id, plan_id, kind, title, version)
  nulls not distinct where version is not null;
create index artifact_time on artifact (org_id, created_at);
create index artifact_step on artifact (org_id, step_id) where step_id is not null;

create table artifact_source (
  org_id        uuid        not null default app_org(),
  artifact_id   uuid        not null,
  source_id     uuid        not null,
  position      integer     not null,
  retrieved_at  timestamptz,
  primary key (org_id, artifact_id, source_id),
  foreign key (org_id, artifact_id) references artifact (org_id, id),
  foreign key (org_id, source_id) references source (org_id, id)
);
create index artifact_source_source on artifact_source (org_id, source_id);

-- A passage is a part of an artifact or source as search reads it. It is derived from them, so it
-- is not audited. The org is among the words, so that one index can serve all orgs; no text can
-- contain a word that begins with @.
create table passage (
  org_id      uuid        not null default app_org() references org,
  subject     text        not null check (subject in ('artifact', 'source')),
  subject_id  uuid        not null,
  part        integer     not null check (part >= 1),
  plan_id     text collate "C",
  kind        text        not null,
  title       text        not null,
  body        text        not null,
  created_at  timestamptz not null,
  words       tsvector    not null generated always as (
                array_to_tsvector(array['@' || org_id::text])
                || setweight(to_tsvector('english', title), 'A')
                || setweight(to_tsvector('english', body), 'B')) stored,
  tags        text,
  primary key (org_id, subject_id, part)
);
-- Without a pending list, because every search would read it.
create index passage_words on passage using gin (words) with (fastupdate = off);
create index passage_time on passage (org_id, created_at desc);
create index passage_plan on passage (org_id, plan_id, created_at desc) where plan_id is not null;
create index passage_kind on passage (org_id, kind, created_at desc);

-- `added` and `deleted` are the ids of the writing transactions. A reader remembers the oldest
-- transaction that was still running in its snapshot, and next asks for what that one or a later
-- one wrote: nothing is missed, no writer waits for another, and a row that comes twice has the
-- same key.
create table passage_embedding (
  org_id      uuid    not null default app_org(),
  subject_id  uuid    not null,
  part        integer not null,
  model       text    not null,
  added       bigint  not null default app_transaction(),
  embedding   bytea   not null check (octet_length(embedding) = 512),
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

create table access_link (
  org_id      uuid        not null default app_org(),
  id          uuid        not null,
  kind        text        not null check (kind in ('review', 'snapshot', 'feedback')),
  hash        bytea       not null check (length(hash) = 32),
  plan_id     text collate "C",
  review_id   text collate "C",
  seq         integer     check (seq >= 1),
  user_id     uuid,
  for_user    text        not null,
  created_at  timestamptz not null,
  expires_at  timestamptz not null,
  revoked_at  timestamptz,
  revoked_by  text,
  run_id      text collate "C",
  stage       text,
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id),
  foreign key (org_id, run_id) references run (org_id, id),
  foreign key (org_id, user_id) references org_user (org_id, id),
  check ((kind = 'review') = (review_id is not null)),
  check ((kind = 'snapshot') = (seq is not null)),
  check ((revoked_at is null) = (revoked_by is null)),
  check ((kind = 'feedback') = (run_id is not null)),
  check ((run_id is null) = (stage is null)),
  check ((run_id is null) = (plan_id is not null))
);
create index access_link_hash on access_link (hash);
create index access_link_plan on access_link (org_id, plan_id);
create index access_link_user on access_link (org_id, user_id) where user_id is not null;
create index access_link_run on access_link (org_id, run_id) where run_id is not null;

create table usage (
  org_id         uuid        not null default app_org() references org,
  id             uuid        not null,
  plan_id        text collate "C",
  step_id        text collate "C",
  run_id         text collate "C",
  job_id         text collate "C",
  attempt        bigint      not null,
  input_tokens   bigint      check (input_tokens >= 0),
  output_tokens  bigint      check (output_tokens >= 0),
  cost_micros    bigint      check (cost_micros >= 0),
  model          text,
  at             timestamptz not null,
  by             text        not null,
  session        text,
  primary key (org_id, id),
  foreign key (org_id, job_id) references job (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id),
  foreign key (org_id, run_id) references run (org_id, id),
  check ((plan_id is null) = (step_id is null)),
  check ((run_id is null) = (job_id is null)),
  constraint usage_of_one check (plan_id is null or run_id is null)
);
create index usage_plan on usage (org_id, plan_id) where plan_id is not null;
create index usage_run on usage (org_id, run_id) where run_id is not null;
create index usage_time on usage (org_id, at);
create index usage_agent on usage
  (org_id, by, (case when session is null then '' else session end), at);

create table agent (
  org_id         uuid        not null default app_org(),
  name           text        not null,
  session        text        not null,
  clients        text[]      not null,
  first_seen_at  timestamptz not null default app_statement_time(),
  last_seen_at   timestamptz not null default app_statement_time(),
  primary key (org_id, name, session)
);
create index agent_seen on agent (org_id, last_seen_at);

-- One row per change, numbered per plan, run, org or skill execution, each sealed with the hash of
-- the entry before it. `details` is json, not jsonb, because the seal covers the exact text. `brief`
-- is derived from it for pages: the details without long values, or null if the details are short.
create table audit_entry (
  org_id      uuid        not null default app_org(),
  subject_id  text collate "C" not null,
  seq         integer     not null,
  at          timestamptz not null,
  subject     text        not null,
  event       text        not null,
  actor       text        not null,
  channel     text        not null,
  session     text,
  details     json        not null,
  hash        bytea       not null,
  brief       json,
  primary key (org_id, subject_id, seq, at),
  constraint audit_entry_event check (app_is_event(event))
) partition by range (at);
create index audit_entry_time on audit_entry (org_id, at);
create index audit_entry_actor on audit_entry (org_id, actor, at);
-- The two frequent events, and the channel of agents, need no index: entries of them are always
-- among the latest ones.
create index audit_entry_event on audit_entry (org_id, event, at)
  where event not in ('step_started', 'step_completed');
create index audit_entry_channel on audit_entry (org_id, channel, at) where channel <> 'mcp';
create index audit_entry_agent on audit_entry
  (org_id, actor, (case when session is null then '' else session end), at);
create table audit_entry_default partition of audit_entry default;

-- What remains of erased rows. An erasure is sealed upon the one before it, together with a
-- tombstone for every chain that it ended or sealed again. The end of an org's chain of erasures
-- is in its row. `who` is the name of an erased person from then on; `counts` are the deleted rows
-- by table.
create table erasure (
  org_id  uuid        not null default app_org(),
  number  integer     not null check (number >= 1),
  at      timestamptz not null,
  by      text        not null,
  what    text        not null check (what in ('org', 'user', 'archived')),
  who     text,
  counts  json        not null,
  hash    bytea       not null,
  primary key (org_id, number),
  check ((what = 'user') = (who is not null))
);

create table tombstone (
  org_id       uuid    not null default app_org(),
  erasure      integer not null,
  subject_id   text collate "C" not null,
  subject      text    not null,
  entries      integer not null,
  seal_before  bytea   not null,
  seal_after   bytea,
  primary key (org_id, erasure, subject_id),
  foreign key (org_id, erasure) references erasure (org_id, number)
);
create index tombstone_subject on tombstone (org_id, subject_id);

create table idempotency_answer (
  org_id          uuid        not null default app_org(),
  tool            text        not null,
  key             text        not null,
  arguments_hash  bytea       not null,
  is_error        boolean     not null,
  answer          json        not null,
  created_at      timestamptz not null,
  primary key (org_id, tool, key)
);

create table mcp_tool_call_log (
  org_id          uuid        not null default app_org(),
  at              timestamptz not null,
  id              uuid        not null,
  tool            text        not null,
  actor           text        not null,
  channel         text        not null,
  session         text,
  duration_ms     real        not null,
  request_bytes   integer     not null,
  response_bytes  integer     not null,
  is_error        boolean     not null,
  error_code      text,
  replayed        boolean     not null,
  step_id         text collate "C",
  primary key (org_id, at, id)
) partition by range (at);
create index mcp_tool_call_log_step on mcp_tool_call_log (org_id, step_id, at)
  where step_id is not null;
create table mcp_tool_call_log_default partition of mcp_tool_call_log default;

create table webhook_delivery (
  org_id      uuid        not null default app_org() references org,
  id          uuid        not null,
  event       text        not null,
  subject_id  text collate "C",
  data        json        not null,
  status      text        not null default 'waiting'
              check (status in ('waiting', 'delivered', 'given_up')),
  attempt     integer     not null default 0 check (attempt >= 0),
  at          timestamptz not null,
  due_at      timestamptz not null,
  expires_at  timestamptz not null,
  settled_at  timestamptz,
  answered    smallint,
  fault       text,
  primary key (org_id, id),
  check ((settled_at is null) = (status = 'waiting'))
);
create index webhook_delivery_due on webhook_delivery (org_id, due_at) where status = 'waiting';
create index webhook_delivery_time on webhook_delivery (org_id, at, id);

-- Row-level security, forced, on every table and partition.
do $$
declare
  name text;
begin
  for name in
    select c.relname from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
       and c.relname <> 'schema_migration'
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    if name not in ('org', 'erasure') then
      execute format('create policy tenant on %I using (org_id = app_org()) with check (org_id = app_org())', name);
    end if;
  end loop;
end $$;

-- A sweep sees the ids and slugs of all orgs, and those of erased ones.
create policy tenant on org
  using (org_id = app_org() or current_setting('app.sweep', true) = 'on')
  with check (org_id = app_org());
create policy tenant on erasure
  using (org_id = app_org() or current_setting('app.sweep', true) = 'on')
  with check (org_id = app_org());

create policy bearer on api_token for select using (hash = app_secret_hash());
create policy bearer on web_session for select using (hash = app_secret_hash());
create policy bearer on access_link for select using (hash = app_secret_hash());

-- The serving role owns no table and may do only this.
grant usage on schema public to waybook_app;
grant select on org, erasure, tombstone to waybook_app;
grant update (name, review_policy, audit_seq, audit_hash) on org to waybook_app;
grant select, insert on
  org_user, api_token, web_session, skill_execution, plan, plan_brief, plan_word, plan_step,
  step_brief, step_result, branching_condition, review, plan_session, dag_definition, run,
  run_brief, run_word, stage_run, stage_step, job, job_part, document, rendered_document,
  late_result, source, artifact, artifact_source, passage, passage_embedding,
  passage_deletion, passage_quarantine, access_link, usage, agent, audit_entry,
  idempotency_answer, mcp_tool_call_log, webhook_delivery
  to waybook_app;
grant update on
  plan, plan_step, step_brief, branching_condition, review, skill_execution, run, stage_run,
  stage_step, job, passage_quarantine, agent, webhook_delivery
  to waybook_app;
grant update (scopes, disabled_at) on org_user to waybook_app;
grant update (last_used_at, revoked_at, revoked_by) on api_token to waybook_app;
grant update (last_seen_at, ended_at) on web_session to waybook_app;
grant update (revoked_at, revoked_by) on access_link to waybook_app;
grant delete on plan_step, step_brief, branching_condition, passage, webhook_delivery
  to waybook_app;
