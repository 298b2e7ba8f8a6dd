-- Notices on their way to whoever is configured to be told.
--
-- A row is written in the transaction of the change it tells of, where webhooks are configured;
-- whoever delivers claims it for a while, so nothing is held while a stranger answers. This is
-- telemetry: not audited, and what is settled is forgotten after a while. Where it goes and how it
-- is signed is not here: that is the operator's setting.

create table webhook_delivery (
  org_id      uuid        not null default app_org() references org,
  id          uuid        not null,
  event       text        not null,
  subject_id  uuid,
  data        json        not null,
  status      text        not null default 'waiting'
              check (status in ('waiting', 'delivered', 'given_up')),
  attempt     integer     not null default 0 check (attempt >= 0),
  at          timestamptz not null,
  due_at      timestamptz not null,
  expires_at  timestamptz not null,
  settled_at  timestamptz check ((settled_at is null) = (status = 'waiting')),
  answered    smallint,
  fault       text,
  primary key (org_id, id)
);
create index webhook_delivery_due on webhook_delivery (org_id, due_at) where status = 'waiting';
create index webhook_delivery_time on webhook_delivery (org_id, at, id);

alter table webhook_delivery enable row level security;
alter table webhook_delivery force row level security;
create policy tenant on webhook_delivery using (org_id = app_org()) with check (org_id = app_org());

grant select, insert, update, delete on webhook_delivery to waybook_app;
