-- Research that agents store: with a plan it stands in the plan's chain, without one in its own.

-- What belongs to no plan is its own subject in the audit, and knows where its chain ends.
alter table artifact
  add column audit_seq   integer,
  add column audit_hash  bytea,
  add constraint artifact_chain check (plan_id is not null or audit_hash is not null);

-- Without a plan a name has its versions too.
drop index artifact_version;
create unique index artifact_version on artifact (org_id, plan_id, kind, title, version)
  nulls not distinct where version is not null;

-- When somebody retrieved a source is told by who came from it: the source is the same for all.
alter table artifact_source add column retrieved_at timestamptz;
alter table source drop column retrieved_at;

-- For who looks what is new.
create index artifact_time on artifact (org_id, created_at);

-- The tags of the artifact, one behind the other; no tag has the character between them.
alter table passage add column tags text;
