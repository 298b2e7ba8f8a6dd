-- Runs of prepared DAGs: definitions, runs, their stages, steps and jobs, and what jobs made.
--
-- What a run counts is kept where it is counted: stage_step holds how many units of a step are
-- done and failed, written in the transaction that ends a unit, so that progress is read without
-- looking at a single job.

-- A plan may say which step waits for which; most say nothing, and go by their order.
alter table plan_step add column depends_on uuid[];

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
  org_id        uuid        not null default app_org() references org,
  id            uuid        not null,
  name          text        not null,
  dag_slug      text        not null,
  dag_version   integer     not null,
  completed_at  timestamptz,
  audit_seq     integer     not null,
  audit_hash    bytea       not null,
  updated_at    timestamptz not null,
  primary key (org_id, id),
  foreign key (org_id, dag_slug, dag_version) references dag_definition (org_id, slug, version)
) with (fillfactor = 85);

create table run_brief (
  org_id      uuid        not null default app_org(),
  run_id      uuid        not null,
  input       json        not null,
  created_at  timestamptz not null,
  created_by  text        not null,
  primary key (org_id, run_id),
  foreign key (org_id, run_id) references run (org_id, id)
);

create table stage_run (
  org_id        uuid        not null default app_org(),
  run_id        uuid        not null,
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
  run_id      uuid        not null,
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

create table job (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  run_id        uuid        not null,
  stage_slug    text        not null,
  step_key      text        not null,
  job_type      text        not null check (job_type in ('PLAN', 'EXECUTE', 'RENDER')),
  model         text        not null,
  rank          integer     not null,
  unit          json,
  status        text        not null check (status in
                ('pending', 'processing', 'retrying', 'waiting', 'completed', 'failed',
                 'retry_loop_failed', 'superseded')),
  attempt       integer     not null check (attempt >= 0),
  tries         integer     not null check (tries >= 0),
  ready_at      timestamptz not null,
  seen_at       timestamptz,  -- a sign of life: telemetry, not history
  held_by       text,
  held_session  text,
  started_at    timestamptz,
  completed_at  timestamptz,
  error         text,
  usage         json,
  continues_id  uuid,
  part          integer     not null check (part >= 1),
  document_id   uuid,
  counted       boolean     not null,
  primary key (org_id, id),
  foreign key (org_id, run_id, stage_slug) references stage_run (org_id, run_id, stage_slug),
  check ((job_type = 'RENDER') = (unit is null)),
  check ((completed_at is not null) =
         (status in ('completed', 'failed', 'retry_loop_failed', 'superseded')))
) with (fillfactor = 70);

-- All of a run, for whoever reads it whole.
create index job_of_run on job (org_id, run_id);
-- What can be handed out, in the order in which it is. A job leaves it once, when it is over.
create index job_open on job (org_id, run_id, rank, id)
  where completed_at is null and job_type <> 'RENDER';
-- The same for whoever asks for one model: when nothing of it is left, that is seen at once.
create index job_open_for_model on job (org_id, run_id, model, rank, id)
  where completed_at is null and job_type <> 'RENDER';
-- What each session holds.
create index job_held on job (org_id, held_session, run_id)
  where status = 'processing';
-- What the server itself has to render.
create index job_to_render on job (org_id, run_id, id)
  where completed_at is null and job_type = 'RENDER';
-- What was given up.
create index job_failed on job (org_id, run_id, stage_slug, step_key)
  where status in ('failed', 'retry_loop_failed');

-- The text of a job that others went on from.
create table job_part (
  org_id        uuid    not null default app_org(),
  job_id        uuid    not null,
  run_id        uuid    not null,
  part          integer not null,
  content       text    not null,
  content_hash  text    not null,
  primary key (org_id, job_id),
  foreign key (org_id, job_id) references job (org_id, id)
);

create index job_part_of_run on job_part (org_id, run_id);

-- Written once; a document written anew is a row of a higher version.
create table document (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  run_id        uuid        not null,
  stage_slug    text        not null,
  step_key      text        not null,
  job_id        uuid        not null,
  document_key  text        not null,
  model         text        not null,
  lineage       text        not null,
  reviewer      text,
  version       integer     not null check (version >= 1),
  content       text        not null,
  content_hash  text        not null,
  created_at    timestamptz not null,
  primary key (org_id, id),
  foreign key (org_id, job_id) references job (org_id, id)
);
create unique index document_place on document
  (org_id, run_id, stage_slug, document_key, step_key, model, lineage, coalesce(reviewer, ''),
   version);

create table rendered_document (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  run_id        uuid        not null,
  document_id   uuid        not null,
  job_id        uuid        not null,
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

-- What somebody handed in after the job had moved on: refused, and kept.
create table late_result (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  run_id        uuid        not null,
  job_id        uuid        not null,
  attempt       integer     not null,
  content       text        not null,
  content_hash  text        not null,
  created_at    timestamptz not null,
  created_by    text        not null,
  primary key (org_id, id),
  foreign key (org_id, job_id) references job (org_id, id)
);
create index late_result_run on late_result (org_id, run_id);

do $$
declare
  name text;
begin
  foreach name in array array['dag_definition', 'run', 'run_brief', 'stage_run', 'stage_step',
                              'job', 'job_part', 'document', 'rendered_document', 'late_result']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I using (org_id = app_org()) with check (org_id = app_org())', name);
  end loop;
end $$;

grant select, insert on
  dag_definition, run, run_brief, stage_run, stage_step, job, job_part, document,
  rendered_document, late_result
  to waybook_app;
grant update on run, stage_run, stage_step, job to waybook_app;
