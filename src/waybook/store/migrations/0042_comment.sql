-- Oldest compatible migration: 0041
--
-- Comments on a plan or run as a whole, or on one of its steps or jobs. They are history: they
-- outlive a step that is removed later. An open comment may have an assignee, who is expected to act.

create table comment (
  org_id       uuid        not null default app_org(),
  id           text collate "C" not null,
  plan_id      text collate "C",
  run_id       text collate "C",
  step_id      text collate "C",
  job_id       text collate "C",
  body         text        not null,
  assignee     text,
  created_at   timestamptz not null,
  created_by   text        not null,
  session      text,
  channel      text        not null,
  resolved_at  timestamptz,
  resolved_by  text,
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id),
  foreign key (org_id, run_id) references run (org_id, id),
  check ((plan_id is null) <> (run_id is null)),
  check (step_id is null or plan_id is not null),
  check (job_id is null or run_id is not null),
  check ((resolved_at is null) = (resolved_by is null)),
  check (body <> '' or assignee is not null)
);
create index comment_plan on comment (org_id, plan_id, id) where plan_id is not null;
create index comment_run on comment (org_id, run_id, id) where run_id is not null;
create index comment_open on comment (org_id, id) where resolved_at is null;

alter table comment enable row level security;
alter table comment force row level security;
create policy tenant on comment using (org_id = app_org()) with check (org_id = app_org());
grant select, insert on comment to waybook_app;
grant update (resolved_at, resolved_by) on comment to waybook_app;
