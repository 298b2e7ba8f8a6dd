-- What is left of what was erased: that it was there, how much it was, and the seal it ended with.
--
-- An erasure is sealed upon the one before it, as audit entries are, together with a tombstone for
-- every chain it ended or sealed anew. The end of an org's chain of erasures stands in its own row.

alter table org
  add column erasures integer not null default 0,
  add column erasure_hash bytea;

create table erasure (
  org_id   uuid        not null default app_org(),
  number   integer     not null check (number >= 1),
  at       timestamptz not null,
  by       text        not null,
  what     text        not null check (what in ('org', 'user', 'archived')),
  who      text,       -- what a person is called from then on
  counts   json        not null, -- rows by table; `json`, since the seal is over the very text
  hash     bytea       not null,
  primary key (org_id, number),
  check ((what = 'user') = (who is not null))
);

create table tombstone (
  org_id       uuid    not null default app_org(),
  erasure      integer not null,
  subject_id   uuid    not null,
  subject      text    not null,
  entries      integer not null,
  seal_before  bytea   not null,
  seal_after   bytea,  -- none where the chain is gone
  primary key (org_id, erasure, subject_id),
  foreign key (org_id, erasure) references erasure (org_id, number)
);
create index tombstone_subject on tombstone (org_id, subject_id);

alter table erasure enable row level security;
alter table erasure force row level security;
alter table tombstone enable row level security;
alter table tombstone force row level security;

-- The org of an erasure may be gone from the directory, so a sweep finds it here.
create policy tenant on erasure
  using (org_id = app_org() or current_setting('app.sweep', true) = 'on')
  with check (org_id = app_org());
create policy tenant on tombstone using (org_id = app_org()) with check (org_id = app_org());

grant select on erasure, tombstone to waybook_app;
