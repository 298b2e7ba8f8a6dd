-- Agents: for each user and session that called over MCP, the names of its clients and the time of
-- its last call. The rows are written with the call log and are telemetry as well: the authoritative
-- record of an agent's work is the audit. Calls without a session have the empty session.

create table agent (
  org_id         uuid        not null default app_org(),
  name           text        not null,
  session        text        not null,
  clients        text[]      not null,
  first_seen_at  timestamptz not null,
  last_seen_at   timestamptz not null,
  primary key (org_id, name, session)
);
create index agent_seen on agent (org_id, last_seen_at);

alter table agent enable row level security;
alter table agent force row level security;
create policy tenant on agent using (org_id = app_org()) with check (org_id = app_org());

grant select, insert, update on agent to waybook_app;

-- The session that reported a usage, so that cost can be totaled per agent.
alter table usage add column session text;
create index usage_agent on usage (org_id, by, coalesce(session, ''), at);

-- The audit entries of an agent, for its page.
create index audit_entry_agent on audit_entry (org_id, actor, coalesce(session, ''), at);
