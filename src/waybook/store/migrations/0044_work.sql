-- Oldest compatible migration: 0040
--
-- Caps on what agents may use, reservations under these caps, and the workers that report.

-- A cap of one plan, run or agent (`subject`), or of the org (empty subject). Costs are in
-- millionths of a dollar. `asked` is the limit that a caller last set, `most` the one that holds:
-- a person may have raised it. `day` is the day in UTC to which `used` belongs.
create table work_cap (
  org_id      uuid        not null default app_org() references org,
  id          text collate "C" not null,
  scope       text        not null check (scope in ('plan', 'run', 'agent', 'org')),
  subject     text        not null,
  period      text        not null check (period in ('total', 'day')),
  unit        text        not null
              check (unit in ('tokens', 'costUsd', 'seconds', 'steps', 'failures')),
  most        bigint      not null check (most >= 0),
  asked       bigint      not null check (asked >= 0),
  used        bigint      not null default 0 check (used >= 0),
  day         date        not null,
  paused_at   timestamptz,
  ended_at    timestamptz,
  created_at  timestamptz not null,
  created_by  text        not null,
  primary key (org_id, id),
  unique (org_id, scope, subject, period, unit)
);
create index work_cap_paused on work_cap (org_id, paused_at) where paused_at is not null;

-- What a worker may use at most until it settles or the reservation expires.
create table work_reservation (
  org_id       uuid        not null default app_org() references org,
  id           uuid        not null,
  plan_id      text collate "C",
  run_id       text collate "C",
  agent        text        not null,
  tokens       bigint      check (tokens >= 0),
  cost_micros  bigint      check (cost_micros >= 0),
  seconds      bigint      check (seconds >= 0),
  lease        integer     not null,
  expires_at   timestamptz not null,
  settled_at   timestamptz,
  primary key (org_id, id),
  check ((plan_id is null) <> (run_id is null))
);
create index work_reservation_expiry on work_reservation (org_id, expires_at);
create index work_reservation_unsettled on work_reservation (org_id, expires_at)
 where settled_at is null;

-- The last report of each worker. Like heartbeats, reports are not in the audit.
create table worker (
  org_id       uuid        not null default app_org() references org,
  name         text        not null,
  session      text        not null,
  agent        text        not null,
  host         text,
  state        text        not null check (state in ('working', 'sleeping', 'parked', 'draining')),
  until        timestamptz,
  reason       text,
  plan_id      text collate "C",
  run_id       text collate "C",
  step_id      text collate "C",
  job_id       text collate "C",
  lines        text,
  started_at   timestamptz not null default app_statement_time(),
  reported_at  timestamptz not null default app_statement_time(),
  expires_at   timestamptz not null,
  primary key (org_id, name, session)
);

do $$
declare
  name text;
begin
  foreach name in array array['work_cap', 'work_reservation', 'worker'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I using (org_id = app_org()) with check (org_id = app_org())', name);
  end loop;
end $$;

grant select, insert, update on work_cap, work_reservation, worker to waybook_app;
grant delete on work_reservation, worker to waybook_app;
