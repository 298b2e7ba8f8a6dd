-- What the migrations come to. Made by `make generate`; do not edit.

CREATE OR REPLACE FUNCTION public.app_now()
 RETURNS timestamp with time zone
 LANGUAGE sql
 PARALLEL SAFE
RETURN COALESCE((NULLIF(current_setting('app.now'::text, true), ''::text))::timestamp with time zone, clock_timestamp());

CREATE OR REPLACE FUNCTION public.app_org()
 RETURNS uuid
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (NULLIF(current_setting('app.org_id'::text, true), ''::text))::uuid;

CREATE OR REPLACE FUNCTION public.app_secret_hash()
 RETURNS bytea
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN decode(NULLIF(current_setting('app.secret_hash'::text, true), ''::text), 'hex'::text);

CREATE OR REPLACE FUNCTION public.app_transaction()
 RETURNS bigint
 LANGUAGE sql
AS $function$ select pg_current_xact_id()::text::bigint $function$;

CREATE OR REPLACE FUNCTION public.note_deleted_passages()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into passage_deletion (org_id, subject_id, part)
  select org_id, subject_id, part from gone
      on conflict do nothing;
  return null;
end $function$;

create table api_token (
  org_id uuid not null default app_org(),
  id uuid not null,
  user_id uuid not null,
  label text not null,
  hash bytea not null,
  scopes text[] not null,
  created_at timestamp with time zone not null,
  created_by text not null,
  expires_at timestamp with time zone,
  last_used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  revoked_by text,
  constraint api_token_pkey PRIMARY KEY (org_id, id),
  constraint api_token_org_id_user_id_fkey FOREIGN KEY (org_id, user_id) REFERENCES org_user(org_id, id),
  constraint api_token_hash_check CHECK ((length(hash) = 32)),
  constraint api_token_scopes_check CHECK ((cardinality(scopes) > 0))
);
CREATE INDEX api_token_hash ON public.api_token USING btree (hash);
CREATE INDEX api_token_user ON public.api_token USING btree (org_id, user_id);
alter table api_token enable row level security;
alter table api_token force row level security;
create policy bearer on api_token as permissive for select to public
  using (hash = app_secret_hash());
create policy tenant on api_token as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on api_token to waybook_app;

create table artifact (
  org_id uuid not null default app_org(),
  id uuid not null,
  plan_id uuid,
  step_id uuid,
  kind text not null,
  title text not null,
  content json not null,
  superseded boolean not null default false,
  created_at timestamp with time zone not null,
  created_by text not null,
  media_type text,
  tags json not null default '[]'::json,
  metadata json,
  version integer,
  content_hash text,
  audit_seq integer,
  audit_hash bytea,
  constraint artifact_pkey PRIMARY KEY (org_id, id),
  constraint artifact_org_id_plan_id_fkey FOREIGN KEY (org_id, plan_id) REFERENCES plan(org_id, id),
  constraint artifact_chain CHECK (((plan_id IS NOT NULL) OR (audit_hash IS NOT NULL))),
  constraint artifact_version_check CHECK ((version >= 1))
);
CREATE INDEX artifact_plan ON public.artifact USING btree (org_id, plan_id, created_at);
CREATE INDEX artifact_step ON public.artifact USING btree (org_id, step_id) WHERE (step_id IS NOT NULL);
CREATE INDEX artifact_time ON public.artifact USING btree (org_id, created_at);
CREATE UNIQUE INDEX artifact_version ON public.artifact USING btree (org_id, plan_id, kind, title, version) NULLS NOT DISTINCT WHERE (version IS NOT NULL);
alter table artifact enable row level security;
alter table artifact force row level security;
create policy tenant on artifact as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on artifact to waybook_app;

create table artifact_source (
  org_id uuid not null default app_org(),
  artifact_id uuid not null,
  source_id uuid not null,
  position integer not null,
  retrieved_at timestamp with time zone,
  constraint artifact_source_pkey PRIMARY KEY (org_id, artifact_id, source_id),
  constraint artifact_source_org_id_artifact_id_fkey FOREIGN KEY (org_id, artifact_id) REFERENCES artifact(org_id, id),
  constraint artifact_source_org_id_source_id_fkey FOREIGN KEY (org_id, source_id) REFERENCES source(org_id, id)
);
CREATE INDEX artifact_source_source ON public.artifact_source USING btree (org_id, source_id);
alter table artifact_source enable row level security;
alter table artifact_source force row level security;
create policy tenant on artifact_source as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on artifact_source to waybook_app;

create table audit_entry (
  org_id uuid not null default app_org(),
  subject_id uuid not null,
  seq integer not null,
  at timestamp with time zone not null,
  subject text not null,
  event text not null,
  actor text not null,
  channel text not null,
  session text,
  details json not null,
  hash bytea not null,
  constraint audit_entry_pkey PRIMARY KEY (org_id, subject_id, seq, at),
  constraint audit_entry_event_check CHECK ((event = ANY (ARRAY['step_started'::text, 'step_completed'::text, 'step_failed'::text, 'plan_modified'::text, 'user_reviewed'::text, 'session_resumed'::text, 'skill_started'::text, 'skill_completed'::text])))
) partition by range (at);
CREATE INDEX audit_entry_time ON ONLY public.audit_entry USING btree (org_id, at);
alter table audit_entry enable row level security;
alter table audit_entry force row level security;
create policy tenant on audit_entry as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on audit_entry to waybook_app;

create table audit_entry_default partition of audit_entry default;
alter table audit_entry_default enable row level security;
alter table audit_entry_default force row level security;
create policy tenant on audit_entry_default as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());

create table branching_condition (
  org_id uuid not null default app_org(),
  id uuid not null,
  plan_id uuid not null,
  step_id uuid not null,
  position integer not null,
  expression text not null,
  action text not null,
  target_step_id uuid,
  steps json,
  reason text,
  outcome text,
  constraint branching_condition_pkey PRIMARY KEY (org_id, id),
  constraint branching_condition_org_id_plan_id_fkey FOREIGN KEY (org_id, plan_id) REFERENCES plan(org_id, id),
  constraint branching_condition_org_id_step_id_fkey FOREIGN KEY (org_id, step_id) REFERENCES plan_step(org_id, id),
  constraint branching_condition_action_check CHECK ((action = ANY (ARRAY['continue'::text, 'skip_to'::text, 'add_steps'::text, 'fail'::text]))),
  constraint branching_condition_outcome_check CHECK ((outcome = ANY (ARRAY['fired'::text, 'not_fired'::text, 'error'::text])))
);
CREATE INDEX branching_condition_plan ON public.branching_condition USING btree (org_id, plan_id, "position");
CREATE INDEX branching_condition_step ON public.branching_condition USING btree (org_id, step_id);
alter table branching_condition enable row level security;
alter table branching_condition force row level security;
create policy tenant on branching_condition as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update, delete on branching_condition to waybook_app;

create table dag_definition (
  org_id uuid not null default app_org(),
  slug text not null,
  version integer not null,
  name text not null,
  body json not null,
  body_hash bytea not null,
  created_at timestamp with time zone not null,
  created_by text not null,
  constraint dag_definition_pkey PRIMARY KEY (org_id, slug, version),
  constraint dag_definition_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(org_id),
  constraint dag_definition_version_check CHECK ((version >= 1))
);
alter table dag_definition enable row level security;
alter table dag_definition force row level security;
create policy tenant on dag_definition as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on dag_definition to waybook_app;

create table document (
  org_id uuid not null default app_org(),
  id uuid not null,
  run_id uuid not null,
  stage_slug text not null,
  step_key text not null,
  job_id uuid not null,
  document_key text not null,
  model text not null,
  lineage text not null,
  reviewer text,
  version integer not null,
  content text not null,
  content_hash text not null,
  created_at timestamp with time zone not null,
  constraint document_pkey PRIMARY KEY (org_id, id),
  constraint document_org_id_job_id_fkey FOREIGN KEY (org_id, job_id) REFERENCES job(org_id, id),
  constraint document_version_check CHECK ((version >= 1))
);
CREATE UNIQUE INDEX document_place ON public.document USING btree (org_id, run_id, stage_slug, document_key, step_key, model, lineage, COALESCE(reviewer, ''::text), version);
alter table document enable row level security;
alter table document force row level security;
create policy tenant on document as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on document to waybook_app;

create table erasure (
  org_id uuid not null default app_org(),
  number integer not null,
  at timestamp with time zone not null,
  by text not null,
  what text not null,
  who text,
  counts json not null,
  hash bytea not null,
  constraint erasure_pkey PRIMARY KEY (org_id, number),
  constraint erasure_check CHECK (((what = 'user'::text) = (who IS NOT NULL))),
  constraint erasure_number_check CHECK ((number >= 1)),
  constraint erasure_what_check CHECK ((what = ANY (ARRAY['org'::text, 'user'::text, 'archived'::text])))
);
alter table erasure enable row level security;
alter table erasure force row level security;
create policy tenant on erasure as permissive for all to public
  using ((org_id = app_org()) OR (current_setting('app.sweep'::text, true) = 'on'::text))
  with check (org_id = app_org());
grant select on erasure to waybook_app;

create table idempotency_answer (
  org_id uuid not null default app_org(),
  tool text not null,
  key text not null,
  arguments_hash bytea not null,
  is_error boolean not null,
  answer json not null,
  created_at timestamp with time zone not null,
  constraint idempotency_answer_pkey PRIMARY KEY (org_id, tool, key)
);
alter table idempotency_answer enable row level security;
alter table idempotency_answer force row level security;
create policy tenant on idempotency_answer as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on idempotency_answer to waybook_app;

create table job (
  org_id uuid not null default app_org(),
  id uuid not null,
  run_id uuid not null,
  stage_slug text not null,
  step_key text not null,
  job_type text not null,
  model text not null,
  rank integer not null,
  unit json,
  status text not null,
  attempt integer not null,
  tries integer not null,
  ready_at timestamp with time zone not null,
  seen_at timestamp with time zone,
  held_by text,
  held_session text,
  started_at timestamp with time zone,
  completed_at timestamp with time zone,
  error text,
  usage json,
  continues_id uuid,
  part integer not null,
  document_id uuid,
  counted boolean not null,
  constraint job_pkey PRIMARY KEY (org_id, id),
  constraint job_org_id_run_id_stage_slug_fkey FOREIGN KEY (org_id, run_id, stage_slug) REFERENCES stage_run(org_id, run_id, stage_slug),
  constraint job_attempt_check CHECK ((attempt >= 0)),
  constraint job_check CHECK (((job_type = 'RENDER'::text) = (unit IS NULL))),
  constraint job_check1 CHECK (((completed_at IS NOT NULL) = (status = ANY (ARRAY['completed'::text, 'failed'::text, 'retry_loop_failed'::text, 'superseded'::text])))),
  constraint job_job_type_check CHECK ((job_type = ANY (ARRAY['PLAN'::text, 'EXECUTE'::text, 'RENDER'::text]))),
  constraint job_part_check CHECK ((part >= 1)),
  constraint job_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'processing'::text, 'retrying'::text, 'waiting'::text, 'completed'::text, 'failed'::text, 'retry_loop_failed'::text, 'superseded'::text]))),
  constraint job_tries_check CHECK ((tries >= 0))
) with (fillfactor=70);
CREATE INDEX job_failed ON public.job USING btree (org_id, run_id, stage_slug, step_key) WHERE (status = ANY (ARRAY['failed'::text, 'retry_loop_failed'::text]));
CREATE INDEX job_holder ON public.job USING btree (org_id, held_by, held_session, run_id) WHERE (status = 'processing'::text);
CREATE INDEX job_of_run ON public.job USING btree (org_id, run_id);
CREATE INDEX job_open ON public.job USING btree (org_id, run_id, rank, id) WHERE ((completed_at IS NULL) AND (job_type <> 'RENDER'::text));
CREATE INDEX job_open_for_model ON public.job USING btree (org_id, run_id, model, rank, id) WHERE ((completed_at IS NULL) AND (job_type <> 'RENDER'::text));
CREATE INDEX job_to_render ON public.job USING btree (org_id, run_id, id) WHERE ((completed_at IS NULL) AND (job_type = 'RENDER'::text));
alter table job enable row level security;
alter table job force row level security;
create policy tenant on job as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update on job to waybook_app;

create table job_part (
  org_id uuid not null default app_org(),
  job_id uuid not null,
  run_id uuid not null,
  part integer not null,
  content text not null,
  content_hash text not null,
  constraint job_part_pkey PRIMARY KEY (org_id, job_id),
  constraint job_part_org_id_job_id_fkey FOREIGN KEY (org_id, job_id) REFERENCES job(org_id, id)
);
CREATE INDEX job_part_of_run ON public.job_part USING btree (org_id, run_id);
alter table job_part enable row level security;
alter table job_part force row level security;
create policy tenant on job_part as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on job_part to waybook_app;

create table late_result (
  org_id uuid not null default app_org(),
  id uuid not null,
  run_id uuid not null,
  job_id uuid not null,
  attempt integer not null,
  content text not null,
  content_hash text not null,
  created_at timestamp with time zone not null,
  created_by text not null,
  constraint late_result_pkey PRIMARY KEY (org_id, id),
  constraint late_result_org_id_job_id_fkey FOREIGN KEY (org_id, job_id) REFERENCES job(org_id, id)
);
CREATE INDEX late_result_run ON public.late_result USING btree (org_id, run_id);
alter table late_result enable row level security;
alter table late_result force row level security;
create policy tenant on late_result as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on late_result to waybook_app;

create table mcp_tool_call_log (
  org_id uuid not null default app_org(),
  at timestamp with time zone not null,
  id uuid not null,
  tool text not null,
  actor text not null,
  channel text not null,
  session text,
  duration_ms real not null,
  request_bytes integer not null,
  response_bytes integer not null,
  is_error boolean not null,
  error_code text,
  replayed boolean not null,
  step_id uuid,
  constraint mcp_tool_call_log_pkey PRIMARY KEY (org_id, at, id)
) partition by range (at);
CREATE INDEX mcp_tool_call_log_step ON ONLY public.mcp_tool_call_log USING btree (org_id, step_id, at) WHERE (step_id IS NOT NULL);
alter table mcp_tool_call_log enable row level security;
alter table mcp_tool_call_log force row level security;
create policy tenant on mcp_tool_call_log as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on mcp_tool_call_log to waybook_app;

create table mcp_tool_call_log_default partition of mcp_tool_call_log default;
alter table mcp_tool_call_log_default enable row level security;
alter table mcp_tool_call_log_default force row level security;
create policy tenant on mcp_tool_call_log_default as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());

create table org (
  org_id uuid not null,
  slug text not null,
  created_at timestamp with time zone not null default now(),
  name text,
  review_policy text not null default 'relayed'::text,
  erasures integer not null default 0,
  erasure_hash bytea,
  audit_seq integer not null default 0,
  audit_hash bytea,
  constraint org_pkey PRIMARY KEY (org_id),
  constraint org_slug_key UNIQUE (slug),
  constraint org_review_policy_check CHECK ((review_policy = ANY (ARRAY['relayed'::text, 'human'::text])))
);
alter table org enable row level security;
alter table org force row level security;
create policy tenant on org as permissive for all to public
  using ((org_id = app_org()) OR (current_setting('app.sweep'::text, true) = 'on'::text))
  with check (org_id = app_org());
grant select on org to waybook_app;

create table org_user (
  org_id uuid not null default app_org(),
  id uuid not null,
  name text not null,
  email text,
  issuer text,
  subject text,
  scopes text[] not null,
  created_at timestamp with time zone not null,
  created_by text not null,
  disabled_at timestamp with time zone,
  constraint org_user_pkey PRIMARY KEY (org_id, id),
  constraint org_user_org_id_issuer_subject_key UNIQUE (org_id, issuer, subject),
  constraint org_user_org_id_name_key UNIQUE (org_id, name),
  constraint org_user_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(org_id),
  constraint org_user_check CHECK (((issuer IS NULL) = (subject IS NULL)))
);
alter table org_user enable row level security;
alter table org_user force row level security;
create policy tenant on org_user as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on org_user to waybook_app;

create table passage (
  org_id uuid not null default app_org(),
  subject text not null,
  subject_id uuid not null,
  part integer not null,
  plan_id uuid,
  kind text not null,
  title text not null,
  body text not null,
  created_at timestamp with time zone not null,
  words tsvector not null generated always as (((array_to_tsvector(ARRAY[('@'::text || (org_id)::text)]) || setweight(to_tsvector('english'::regconfig, title), 'A'::"char")) || setweight(to_tsvector('english'::regconfig, body), 'B'::"char"))) stored,
  tags text,
  constraint passage_pkey PRIMARY KEY (org_id, subject_id, part),
  constraint passage_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(org_id),
  constraint passage_part_check CHECK ((part >= 1)),
  constraint passage_subject_check CHECK ((subject = ANY (ARRAY['artifact'::text, 'source'::text])))
);
CREATE INDEX passage_kind ON public.passage USING btree (org_id, kind, created_at DESC);
CREATE INDEX passage_plan ON public.passage USING btree (org_id, plan_id, created_at DESC) WHERE (plan_id IS NOT NULL);
CREATE INDEX passage_time ON public.passage USING btree (org_id, created_at DESC);
CREATE INDEX passage_words ON public.passage USING gin (words) WITH (fastupdate=off);
CREATE TRIGGER passage_deleted AFTER DELETE ON public.passage REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note_deleted_passages();
alter table passage enable row level security;
alter table passage force row level security;
create policy tenant on passage as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, delete on passage to waybook_app;

create table passage_deletion (
  org_id uuid not null default app_org(),
  deleted bigint not null default app_transaction(),
  subject_id uuid not null,
  part integer not null,
  deleted_at timestamp with time zone not null default now(),
  constraint passage_deletion_pkey PRIMARY KEY (org_id, deleted, subject_id, part)
);
alter table passage_deletion enable row level security;
alter table passage_deletion force row level security;
create policy tenant on passage_deletion as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on passage_deletion to waybook_app;

create table passage_embedding (
  org_id uuid not null default app_org(),
  subject_id uuid not null,
  part integer not null,
  model text not null,
  codes bytea not null,
  added bigint not null default app_transaction(),
  constraint passage_embedding_pkey PRIMARY KEY (org_id, subject_id, part, model),
  constraint passage_embedding_org_id_subject_id_part_fkey FOREIGN KEY (org_id, subject_id, part) REFERENCES passage(org_id, subject_id, part) ON DELETE CASCADE,
  constraint passage_embedding_codes_check CHECK ((octet_length(codes) = 256))
);
CREATE INDEX passage_embedding_added ON public.passage_embedding USING btree (org_id, model, added);
alter table passage_embedding enable row level security;
alter table passage_embedding force row level security;
create policy tenant on passage_embedding as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on passage_embedding to waybook_app;

create table passage_quarantine (
  org_id uuid not null default app_org(),
  subject_id uuid not null,
  part integer not null,
  model text not null,
  backend text not null,
  quarantined_at timestamp with time zone not null,
  constraint passage_quarantine_pkey PRIMARY KEY (org_id, subject_id, part, model, backend),
  constraint passage_quarantine_org_id_subject_id_part_fkey FOREIGN KEY (org_id, subject_id, part) REFERENCES passage(org_id, subject_id, part) ON DELETE CASCADE,
  constraint passage_quarantine_backend_check CHECK ((backend = ANY (ARRAY['portable'::text, 'pgvector'::text])))
);
alter table passage_quarantine enable row level security;
alter table passage_quarantine force row level security;
create policy tenant on passage_quarantine as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update on passage_quarantine to waybook_app;

create table plan (
  org_id uuid not null default app_org(),
  id uuid not null,
  name text not null,
  status text not null,
  revision integer not null,
  stall_seconds integer,
  resumed_at timestamp with time zone,
  completed_at timestamp with time zone,
  fail_reason text,
  audit_seq integer not null,
  audit_hash bytea not null,
  updated_at timestamp with time zone not null,
  usage json,
  budget json,
  constraint plan_pkey PRIMARY KEY (org_id, id),
  constraint plan_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(org_id),
  constraint plan_check CHECK (((completed_at IS NOT NULL) = (status = ANY (ARRAY['completed'::text, 'failed'::text])))),
  constraint plan_status_check CHECK ((status = ANY (ARRAY['planning'::text, 'executing'::text, 'awaiting_review'::text, 'stalled'::text, 'completed'::text, 'failed'::text])))
) with (fillfactor=85);
CREATE INDEX plan_open ON public.plan USING btree (org_id, id) WHERE (completed_at IS NULL);
alter table plan enable row level security;
alter table plan force row level security;
create policy tenant on plan as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update on plan to waybook_app;

create table plan_brief (
  org_id uuid not null default app_org(),
  plan_id uuid not null,
  research_question text not null,
  formatting_notes text,
  skill_execution_id uuid,
  created_at timestamp with time zone not null,
  created_by text not null,
  constraint plan_brief_pkey PRIMARY KEY (org_id, plan_id),
  constraint plan_brief_org_id_plan_id_fkey FOREIGN KEY (org_id, plan_id) REFERENCES plan(org_id, id)
);
alter table plan_brief enable row level security;
alter table plan_brief force row level security;
create policy tenant on plan_brief as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on plan_brief to waybook_app;

create table plan_session (
  org_id uuid not null default app_org(),
  plan_id uuid not null,
  session text not null,
  seen_at timestamp with time zone not null,
  constraint plan_session_pkey PRIMARY KEY (org_id, plan_id, session),
  constraint plan_session_org_id_plan_id_fkey FOREIGN KEY (org_id, plan_id) REFERENCES plan(org_id, id)
);
alter table plan_session enable row level security;
alter table plan_session force row level security;
create policy tenant on plan_session as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on plan_session to waybook_app;

create table plan_step (
  org_id uuid not null default app_org(),
  id uuid not null,
  plan_id uuid not null,
  step_order integer not null,
  step_type text not null,
  title text,
  status text not null,
  attempt integer not null,
  stall_seconds integer,
  in_progress_since timestamp with time zone,
  last_seen_at timestamp with time zone,
  completed_at timestamp with time zone,
  held_by text,
  held_session text,
  fail_reason text,
  depends_on uuid[],
  constraint plan_step_pkey PRIMARY KEY (org_id, id),
  constraint plan_step_org_id_plan_id_step_order_key UNIQUE (org_id, plan_id, step_order) DEFERRABLE INITIALLY DEFERRED,
  constraint plan_step_org_id_plan_id_fkey FOREIGN KEY (org_id, plan_id) REFERENCES plan(org_id, id),
  constraint plan_step_attempt_check CHECK ((attempt >= 1)),
  constraint plan_step_check CHECK (((completed_at IS NOT NULL) = (status = ANY (ARRAY['completed'::text, 'skipped'::text])))),
  constraint plan_step_check1 CHECK (((status <> 'in_progress'::text) OR (in_progress_since IS NOT NULL))),
  constraint plan_step_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'in_progress'::text, 'awaiting_input'::text, 'completed'::text, 'skipped'::text, 'failed'::text]))),
  constraint plan_step_step_order_check CHECK ((step_order >= 1))
) with (fillfactor=85);
alter table plan_step enable row level security;
alter table plan_step force row level security;
create policy tenant on plan_step as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update, delete on plan_step to waybook_app;

create table rendered_document (
  org_id uuid not null default app_org(),
  id uuid not null,
  run_id uuid not null,
  document_id uuid not null,
  job_id uuid not null,
  markdown text not null,
  html text not null,
  content_hash text not null,
  created_at timestamp with time zone not null,
  constraint rendered_document_pkey PRIMARY KEY (org_id, id),
  constraint rendered_document_org_id_document_id_key UNIQUE (org_id, document_id),
  constraint rendered_document_org_id_document_id_fkey FOREIGN KEY (org_id, document_id) REFERENCES document(org_id, id),
  constraint rendered_document_org_id_job_id_fkey FOREIGN KEY (org_id, job_id) REFERENCES job(org_id, id)
);
CREATE INDEX rendered_document_run ON public.rendered_document USING btree (org_id, run_id);
alter table rendered_document enable row level security;
alter table rendered_document force row level security;
create policy tenant on rendered_document as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on rendered_document to waybook_app;

create table review (
  org_id uuid not null default app_org(),
  id uuid not null,
  plan_id uuid not null,
  step_id uuid not null,
  summary text not null,
  questions json not null,
  result_summary json,
  requested_at timestamp with time zone not null,
  requested_by text not null,
  decision text,
  feedback text,
  decided_at timestamp with time zone,
  decided_by text,
  decided_via text,
  requested_as text,
  decided_as text,
  constraint review_pkey PRIMARY KEY (org_id, id),
  constraint review_org_id_plan_id_fkey FOREIGN KEY (org_id, plan_id) REFERENCES plan(org_id, id),
  constraint review_check CHECK (((decision IS NULL) = (decided_at IS NULL))),
  constraint review_decision_check CHECK ((decision = ANY (ARRAY['approve'::text, 'reject'::text, 'modify'::text, 'skip'::text])))
);
CREATE UNIQUE INDEX review_open ON public.review USING btree (org_id, plan_id) WHERE (decision IS NULL);
CREATE INDEX review_plan ON public.review USING btree (org_id, plan_id, requested_at);
alter table review enable row level security;
alter table review force row level security;
create policy tenant on review as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update on review to waybook_app;

create table run (
  org_id uuid not null default app_org(),
  id uuid not null,
  name text not null,
  dag_slug text not null,
  dag_version integer not null,
  completed_at timestamp with time zone,
  audit_seq integer not null,
  audit_hash bytea not null,
  updated_at timestamp with time zone not null,
  usage json,
  constraint run_pkey PRIMARY KEY (org_id, id),
  constraint run_org_id_dag_slug_dag_version_fkey FOREIGN KEY (org_id, dag_slug, dag_version) REFERENCES dag_definition(org_id, slug, version),
  constraint run_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(org_id)
) with (fillfactor=85);
alter table run enable row level security;
alter table run force row level security;
create policy tenant on run as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update on run to waybook_app;

create table run_brief (
  org_id uuid not null default app_org(),
  run_id uuid not null,
  input json not null,
  created_at timestamp with time zone not null,
  created_by text not null,
  constraint run_brief_pkey PRIMARY KEY (org_id, run_id),
  constraint run_brief_org_id_run_id_fkey FOREIGN KEY (org_id, run_id) REFERENCES run(org_id, id)
);
alter table run_brief enable row level security;
alter table run_brief force row level security;
create policy tenant on run_brief as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on run_brief to waybook_app;

create table schema_migration (
  number integer not null,
  name text not null,
  digest text not null,
  ran_at timestamp with time zone not null default now(),
  constraint schema_migration_pkey PRIMARY KEY (number)
);

create table skill_execution (
  org_id uuid not null default app_org(),
  id uuid not null,
  skill text not null,
  session text,
  status text not null,
  output_media_type text,
  formatting_instructions text,
  started_at timestamp with time zone not null,
  started_by text not null,
  completed_at timestamp with time zone,
  outcome text,
  audit_seq integer not null,
  audit_hash bytea not null,
  constraint skill_execution_pkey PRIMARY KEY (org_id, id),
  constraint skill_execution_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(org_id),
  constraint skill_execution_status_check CHECK ((status = ANY (ARRAY['started'::text, 'completed'::text])))
);
CREATE INDEX skill_execution_session ON public.skill_execution USING btree (org_id, session, started_at);
alter table skill_execution enable row level security;
alter table skill_execution force row level security;
create policy tenant on skill_execution as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update on skill_execution to waybook_app;

create table source (
  org_id uuid not null default app_org(),
  id uuid not null,
  url text,
  title text not null,
  quote text,
  content_hash text not null,
  created_at timestamp with time zone not null,
  created_by text not null,
  constraint source_pkey PRIMARY KEY (org_id, id),
  constraint source_org_id_content_hash_key UNIQUE (org_id, content_hash),
  constraint source_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(org_id)
);
alter table source enable row level security;
alter table source force row level security;
create policy tenant on source as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on source to waybook_app;

create table stage_run (
  org_id uuid not null default app_org(),
  run_id uuid not null,
  stage_slug text not null,
  models json not null,
  prior json not null,
  started_at timestamp with time zone not null,
  completed_at timestamp with time zone,
  feedback text,
  feedback_at timestamp with time zone,
  feedback_by text,
  constraint stage_run_pkey PRIMARY KEY (org_id, run_id, stage_slug),
  constraint stage_run_org_id_run_id_fkey FOREIGN KEY (org_id, run_id) REFERENCES run(org_id, id),
  constraint stage_run_check CHECK (((feedback IS NULL) = (feedback_at IS NULL))),
  constraint stage_run_check1 CHECK (((feedback IS NULL) OR (completed_at IS NOT NULL)))
);
alter table stage_run enable row level security;
alter table stage_run force row level security;
create policy tenant on stage_run as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update on stage_run to waybook_app;

create table stage_step (
  org_id uuid not null default app_org(),
  run_id uuid not null,
  stage_slug text not null,
  step_key text not null,
  total integer not null,
  done integer not null,
  failed integer not null,
  opened_at timestamp with time zone not null,
  closed_at timestamp with time zone,
  constraint stage_step_pkey PRIMARY KEY (org_id, run_id, stage_slug, step_key),
  constraint stage_step_org_id_run_id_stage_slug_fkey FOREIGN KEY (org_id, run_id, stage_slug) REFERENCES stage_run(org_id, run_id, stage_slug),
  constraint stage_step_check CHECK (((done >= 0) AND (failed >= 0) AND ((done + failed) <= total))),
  constraint stage_step_total_check CHECK ((total >= 0))
) with (fillfactor=70);
alter table stage_step enable row level security;
alter table stage_step force row level security;
create policy tenant on stage_step as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update on stage_step to waybook_app;

create table step_brief (
  org_id uuid not null default app_org(),
  step_id uuid not null,
  instructions text not null,
  result_schema json,
  required_sources smallint,
  constraint step_brief_pkey PRIMARY KEY (org_id, step_id),
  constraint step_brief_org_id_step_id_fkey FOREIGN KEY (org_id, step_id) REFERENCES plan_step(org_id, id),
  constraint step_brief_required_sources_check CHECK (((required_sources >= 1) AND (required_sources <= 50)))
);
alter table step_brief enable row level security;
alter table step_brief force row level security;
create policy tenant on step_brief as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update, delete on step_brief to waybook_app;

create table step_result (
  org_id uuid not null default app_org(),
  step_id uuid not null,
  result_summary json,
  confidence double precision,
  report json,
  formatting_notes text,
  usage json,
  constraint step_result_pkey PRIMARY KEY (org_id, step_id),
  constraint step_result_org_id_step_id_fkey FOREIGN KEY (org_id, step_id) REFERENCES plan_step(org_id, id)
);
alter table step_result enable row level security;
alter table step_result force row level security;
create policy tenant on step_result as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on step_result to waybook_app;

create table tombstone (
  org_id uuid not null default app_org(),
  erasure integer not null,
  subject_id uuid not null,
  subject text not null,
  entries integer not null,
  seal_before bytea not null,
  seal_after bytea,
  constraint tombstone_pkey PRIMARY KEY (org_id, erasure, subject_id),
  constraint tombstone_org_id_erasure_fkey FOREIGN KEY (org_id, erasure) REFERENCES erasure(org_id, number)
);
CREATE INDEX tombstone_subject ON public.tombstone USING btree (org_id, subject_id);
alter table tombstone enable row level security;
alter table tombstone force row level security;
create policy tenant on tombstone as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select on tombstone to waybook_app;

create table usage (
  org_id uuid not null default app_org(),
  id uuid not null,
  plan_id uuid,
  step_id uuid,
  run_id uuid,
  job_id uuid,
  attempt bigint not null,
  input_tokens bigint,
  output_tokens bigint,
  cost_micros bigint,
  model text,
  at timestamp with time zone not null,
  by text not null,
  constraint usage_pkey PRIMARY KEY (org_id, id),
  constraint usage_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(org_id),
  constraint usage_org_id_job_id_fkey FOREIGN KEY (org_id, job_id) REFERENCES job(org_id, id),
  constraint usage_org_id_plan_id_fkey FOREIGN KEY (org_id, plan_id) REFERENCES plan(org_id, id),
  constraint usage_org_id_run_id_fkey FOREIGN KEY (org_id, run_id) REFERENCES run(org_id, id),
  constraint usage_check CHECK (((plan_id IS NULL) = (step_id IS NULL))),
  constraint usage_check1 CHECK (((run_id IS NULL) = (job_id IS NULL))),
  constraint usage_cost_micros_check CHECK ((cost_micros >= 0)),
  constraint usage_input_tokens_check CHECK ((input_tokens >= 0)),
  constraint usage_of_one CHECK (((plan_id IS NULL) OR (run_id IS NULL))),
  constraint usage_output_tokens_check CHECK ((output_tokens >= 0))
);
CREATE INDEX usage_plan ON public.usage USING btree (org_id, plan_id) WHERE (plan_id IS NOT NULL);
CREATE INDEX usage_run ON public.usage USING btree (org_id, run_id) WHERE (run_id IS NOT NULL);
CREATE INDEX usage_time ON public.usage USING btree (org_id, at);
alter table usage enable row level security;
alter table usage force row level security;
create policy tenant on usage as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on usage to waybook_app;

create table web_session (
  org_id uuid not null default app_org(),
  id uuid not null,
  user_id uuid not null,
  token_id uuid,
  hash bytea not null,
  created_at timestamp with time zone not null,
  last_seen_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  ended_at timestamp with time zone,
  constraint web_session_pkey PRIMARY KEY (org_id, id),
  constraint web_session_org_id_token_id_fkey FOREIGN KEY (org_id, token_id) REFERENCES api_token(org_id, id),
  constraint web_session_org_id_user_id_fkey FOREIGN KEY (org_id, user_id) REFERENCES org_user(org_id, id),
  constraint web_session_hash_check CHECK ((length(hash) = 32))
);
CREATE INDEX web_session_hash ON public.web_session USING btree (hash);
CREATE INDEX web_session_user ON public.web_session USING btree (org_id, user_id);
alter table web_session enable row level security;
alter table web_session force row level security;
create policy bearer on web_session as permissive for select to public
  using (hash = app_secret_hash());
create policy tenant on web_session as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert on web_session to waybook_app;

create table webhook_delivery (
  org_id uuid not null default app_org(),
  id uuid not null,
  event text not null,
  subject_id uuid,
  data json not null,
  status text not null default 'waiting'::text,
  attempt integer not null default 0,
  at timestamp with time zone not null,
  due_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  settled_at timestamp with time zone,
  answered smallint,
  fault text,
  constraint webhook_delivery_pkey PRIMARY KEY (org_id, id),
  constraint webhook_delivery_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(org_id),
  constraint webhook_delivery_attempt_check CHECK ((attempt >= 0)),
  constraint webhook_delivery_check CHECK (((settled_at IS NULL) = (status = 'waiting'::text))),
  constraint webhook_delivery_status_check CHECK ((status = ANY (ARRAY['waiting'::text, 'delivered'::text, 'given_up'::text])))
);
CREATE INDEX webhook_delivery_due ON public.webhook_delivery USING btree (org_id, due_at) WHERE (status = 'waiting'::text);
CREATE INDEX webhook_delivery_time ON public.webhook_delivery USING btree (org_id, at, id);
alter table webhook_delivery enable row level security;
alter table webhook_delivery force row level security;
create policy tenant on webhook_delivery as permissive for all to public
  using (org_id = app_org())
  with check (org_id = app_org());
grant select, insert, update, delete on webhook_delivery to waybook_app;
