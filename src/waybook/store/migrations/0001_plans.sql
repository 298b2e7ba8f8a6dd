-- The house of plans: who lives here, what they plan, what happened.
--
-- Every table belongs to one org: its keys begin with org_id, and row-level security, forced,
-- shows a transaction only the rows of the org it has named with `set local app.org_id`. No query
-- names the tenant; none can forget it.
--
-- What changes often is narrow and apart from what is large: plan and plan_step hold state;
-- plan_brief, step_brief and step_result hold text. No index covers a status, so that most
-- updates touch no index at all.

create function app_org() returns uuid
  language sql stable parallel safe
  return nullif(current_setting('app.org_id', true), '')::uuid;

-- The clock. A test may freeze it for one transaction; nothing else ever sets app.now.
create function app_now() returns timestamptz
  language sql volatile parallel safe
  return coalesce(nullif(current_setting('app.now', true), '')::timestamptz, clock_timestamp());

create table org (
  org_id      uuid        not null primary key,
  slug        text        not null unique,
  created_at  timestamptz not null default now()
);

create table plan (
  org_id         uuid        not null default app_org() references org,
  id             uuid        not null,
  name           text        not null,
  status         text        not null check (status in
                 ('planning', 'executing', 'awaiting_review', 'stalled', 'completed', 'failed')),
  revision       integer     not null,
  stall_seconds  integer,
  resumed_at     timestamptz,
  completed_at   timestamptz,
  fail_reason    text,
  audit_seq      integer     not null,
  audit_hash     bytea       not null,
  updated_at     timestamptz not null,
  primary key (org_id, id),
  check ((completed_at is not null) = (status in ('completed', 'failed')))
) with (fillfactor = 85);

-- The open plans of an org. The predicate's column changes once in a plan's life.
create index plan_open on plan (org_id, id) where completed_at is null;

create table plan_brief (
  org_id              uuid        not null default app_org(),
  plan_id             uuid        not null,
  research_question   text        not null,
  formatting_notes    text,
  skill_execution_id  uuid,
  created_at          timestamptz not null,
  created_by          text        not null,
  primary key (org_id, plan_id),
  foreign key (org_id, plan_id) references plan (org_id, id)
);

create table plan_step (
  org_id             uuid        not null default app_org(),
  id                 uuid        not null,
  plan_id            uuid        not null,
  step_order         integer     not null check (step_order >= 1),
  step_type          text        not null,
  title              text,
  status             text        not null check (status in
                     ('pending', 'in_progress', 'awaiting_input', 'completed', 'skipped', 'failed')),
  attempt            integer     not null check (attempt >= 1),
  stall_seconds      integer,
  in_progress_since  timestamptz,
  last_seen_at       timestamptz,
  completed_at       timestamptz,
  held_by            text,
  held_session       text,
  fail_reason        text,
  primary key (org_id, id),
  unique (org_id, plan_id, step_order) deferrable initially deferred,
  foreign key (org_id, plan_id) references plan (org_id, id),
  check ((completed_at is not null) = (status in ('completed', 'skipped'))),
  check (status <> 'in_progress' or in_progress_since is not null)
) with (fillfactor = 85);

create table step_brief (
  org_id         uuid not null default app_org(),
  step_id        uuid not null,
  instructions   text not null,
  result_schema  json,
  primary key (org_id, step_id),
  foreign key (org_id, step_id) references plan_step (org_id, id)
);

-- Written once, when a step completes. `json` keeps every number as it was written.
create table step_result (
  org_id            uuid not null default app_org(),
  step_id           uuid not null,
  result_summary    json,
  confidence        double precision,
  report            json,
  formatting_notes  text,
  usage             json,
  primary key (org_id, step_id),
  foreign key (org_id, step_id) references plan_step (org_id, id)
);

create table branching_condition (
  org_id          uuid    not null default app_org(),
  id              uuid    not null,
  plan_id         uuid    not null,
  step_id         uuid    not null,
  position        integer not null,
  expression      text    not null,
  action          text    not null check (action in ('continue', 'skip_to', 'add_steps', 'fail')),
  target_step_id  uuid,   -- no foreign key: a target may be removed once nothing can skip to it
  steps           json,
  reason          text,
  outcome         text    check (outcome in ('fired', 'not_fired', 'error')),
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id),
  foreign key (org_id, step_id) references plan_step (org_id, id)
);
create index branching_condition_plan on branching_condition (org_id, plan_id, position);
create index branching_condition_step on branching_condition (org_id, step_id);

-- Reviews and artifacts are history: they outlive a step that was removed later.
create table review (
  org_id          uuid        not null default app_org(),
  id              uuid        not null,
  plan_id         uuid        not null,
  step_id         uuid        not null,
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
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id),
  check ((decision is null) = (decided_at is null))
);
create unique index review_open on review (org_id, plan_id) where decision is null;
create index review_plan on review (org_id, plan_id, requested_at);

create table plan_session (
  org_id   uuid        not null default app_org(),
  plan_id  uuid        not null,
  session  text        not null,
  seen_at  timestamptz not null,
  primary key (org_id, plan_id, session),
  foreign key (org_id, plan_id) references plan (org_id, id)
);

create table artifact (
  org_id      uuid        not null default app_org(),
  id          uuid        not null,
  plan_id     uuid,
  step_id     uuid,
  kind        text        not null,
  title       text        not null,
  content     json        not null,
  superseded  boolean     not null default false,
  created_at  timestamptz not null,
  created_by  text        not null,
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id)
);
create index artifact_plan on artifact (org_id, plan_id, created_at);

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

-- One row per mutation, numbered per plan (or skill execution), each sealed with the hash of the
-- one before. `details` is json, not jsonb: the seal is over the very text.
create table audit_entry (
  org_id      uuid        not null default app_org(),
  subject_id  uuid        not null,
  seq         integer     not null,
  at          timestamptz not null,
  subject     text        not null,
  event       text        not null check (event in
              ('step_started', 'step_completed', 'step_failed', 'plan_modified', 'user_reviewed',
               'session_resumed', 'skill_started', 'skill_completed')),
  actor       text        not null,
  channel     text        not null,
  session     text,
  details     json        not null,
  hash        bytea       not null,
  primary key (org_id, subject_id, seq, at)
) partition by range (at);
create index audit_entry_time on audit_entry (org_id, at);
create table audit_entry_default partition of audit_entry default;

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
  primary key (org_id, at, id)
) partition by range (at);
create table mcp_tool_call_log_default partition of mcp_tool_call_log default;

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
    if name <> 'org' then
      execute format('create policy tenant on %I using (org_id = app_org()) with check (org_id = app_org())', name);
    end if;
  end loop;
end $$;

-- An org sees itself. Only a transaction that says it sweeps sees the directory of orgs, and of
-- that nothing but ids and slugs.
create policy tenant on org
  using (org_id = app_org() or current_setting('app.sweep', true) = 'on')
  with check (org_id = app_org());

-- The serving role owns nothing and may do only this.
grant usage on schema public to waybook_app;
grant select on org to waybook_app;
grant select, insert on
  plan, plan_brief, plan_step, step_brief, step_result, branching_condition, review,
  plan_session, artifact, skill_execution, audit_entry, idempotency_answer, mcp_tool_call_log
  to waybook_app;
grant update on plan, plan_step, step_brief, branching_condition, review, skill_execution
  to waybook_app;
grant delete on plan_step, step_brief, branching_condition to waybook_app;
