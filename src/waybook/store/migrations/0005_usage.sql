-- What work took, what it may take, and how many sources a step's result must rest on.
--
-- One row per result that told what it took, late ones too; the sums stand in the plan's and the
-- run's own row, which every decision locks and reads anyhow. What `step_result.usage` and
-- `job.usage` hold was told before this, in no fixed shape: it stays, and is not summed.

alter table plan
  add column usage   json,
  add column budget  json;

alter table run add column usage json;

alter table step_brief
  add column required_sources smallint check (required_sources between 1 and 50);

-- The sources of a step are found through its artifacts.
create index artifact_step on artifact (org_id, step_id) where step_id is not null;

-- History, like artifacts: it outlives a step that was removed later.
create table usage (
  org_id         uuid        not null default app_org() references org,
  id             uuid        not null,
  plan_id        uuid,
  step_id        uuid,
  run_id         uuid,
  job_id         uuid,
  attempt        bigint      not null,
  input_tokens   bigint      check (input_tokens >= 0),
  output_tokens  bigint      check (output_tokens >= 0),
  cost_micros    bigint      check (cost_micros >= 0),
  model          text,
  at             timestamptz not null,
  by             text        not null,
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id),
  foreign key (org_id, run_id) references run (org_id, id),
  foreign key (org_id, job_id) references job (org_id, id),
  check ((plan_id is null) = (step_id is null)),
  check ((run_id is null) = (job_id is null)),
  check ((plan_id is null) <> (run_id is null))
);
create index usage_plan on usage (org_id, plan_id) where plan_id is not null;
create index usage_run on usage (org_id, run_id) where run_id is not null;
create index usage_time on usage (org_id, at);

alter table usage enable row level security;
alter table usage force row level security;
create policy tenant on usage using (org_id = app_org()) with check (org_id = app_org());

grant select, insert on usage to waybook_app;
