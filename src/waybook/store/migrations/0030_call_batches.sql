-- Oldest compatible migration: 0029
--
-- Calls that succeeded are logged in batches, one row per batch, user and channel: a row of its own
-- took 400 bytes of write-ahead log and 300 bytes on disk per call. Calls that failed, and calls
-- about a step that the audit does not record, keep a row of their own in `mcp_tool_call_log`, so
-- that they are found by the step. A program that knows only migration 0029 does not show the calls
-- in batches.
create table tool_call_batch (
  org_id uuid        not null default app_org(),
  -- Time of the latest call of the batch.
  at     timestamptz not null,
  id     uuid        not null,
  actor  text        not null,
  channel text       not null,
  -- Number of calls in the batch.
  size   integer     not null check (size >= 1),
  -- A list per call: seconds before `at`, tool, session, duration in milliseconds, bytes of request
  -- and response, whether the answer was a stored one, and the step.
  calls  json        not null,
  primary key (org_id, at, id)
);
alter table tool_call_batch enable row level security;
alter table tool_call_batch force row level security;
create policy tenant on tool_call_batch using (org_id = app_org()) with check (org_id = app_org());
grant select, insert on tool_call_batch to waybook_app;
