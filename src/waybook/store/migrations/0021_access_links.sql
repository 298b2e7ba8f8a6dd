-- Links that work without sign-in: a review link lets the reader decide one review in the name of a
-- user, a snapshot link shows one plan as of one audit entry.
--
-- A link is known by the SHA-256 of its secret alone, like an API token: a transaction that names no
-- org sees the one row whose hash it has named. A review link has the user it decides for; only in
-- local mode, which has no users, it has only a name.

create table access_link (
  org_id      uuid        not null default app_org(),
  id          uuid        not null,
  kind        text        not null check (kind in ('review', 'snapshot')),
  hash        bytea       not null check (length(hash) = 32),
  plan_id     uuid        not null,
  review_id   uuid,
  seq         integer     check (seq >= 1),
  user_id     uuid,
  for_user    text        not null,
  created_at  timestamptz not null,
  expires_at  timestamptz not null,
  revoked_at  timestamptz,
  revoked_by  text,
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id),
  foreign key (org_id, user_id) references org_user (org_id, id),
  check ((kind = 'review') = (review_id is not null)),
  check ((kind = 'snapshot') = (seq is not null)),
  check ((revoked_at is null) = (revoked_by is null))
);
create index access_link_hash on access_link (hash);
create index access_link_plan on access_link (org_id, plan_id);
create index access_link_user on access_link (org_id, user_id) where user_id is not null;

alter table access_link enable row level security;
alter table access_link force row level security;
create policy tenant on access_link using (org_id = app_org()) with check (org_id = app_org());
create policy bearer on access_link for select using (hash = app_secret_hash());

grant select, insert on access_link to waybook_app;
grant update (revoked_at, revoked_by) on access_link to waybook_app;
