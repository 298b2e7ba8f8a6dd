-- Who may come in: users of an org, the tokens they were given, the browsers they signed in with.
--
-- A credential is known by the SHA-256 of its secret alone. Whoever shows one does not say whose it
-- is, so for these two tables a transaction that names no org sees the one row whose hash it has
-- named with `set local app.secret_hash`, and no other.

create function app_secret_hash() returns bytea
  language sql stable parallel safe
  return decode(nullif(current_setting('app.secret_hash', true), ''), 'hex');

alter table org
  add column name text,
  add column review_policy text not null default 'relayed'
             check (review_policy in ('relayed', 'human'));

alter table review
  add column requested_as text,
  add column decided_as text;

-- `name` is what the audit calls them; issuer and subject are what their sign-in calls them.
create table org_user (
  org_id       uuid        not null default app_org() references org,
  id           uuid        not null,
  name         text        not null,
  email        text,
  issuer       text,
  subject      text,
  scopes       text[]      not null,
  created_at   timestamptz not null,
  created_by   text        not null,
  disabled_at  timestamptz,
  primary key (org_id, id),
  unique (org_id, name),
  unique (org_id, issuer, subject),
  check ((issuer is null) = (subject is null))
);

create table api_token (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  user_id       uuid        not null,
  label         text        not null,
  hash          bytea       not null check (length(hash) = 32),
  scopes        text[]      not null check (cardinality(scopes) > 0),
  created_at    timestamptz not null,
  created_by    text        not null,
  expires_at    timestamptz,
  last_used_at  timestamptz,
  revoked_at    timestamptz,
  revoked_by    text,
  primary key (org_id, id),
  foreign key (org_id, user_id) references org_user (org_id, id)
);
create index api_token_hash on api_token (hash);
create index api_token_user on api_token (org_id, user_id);

-- A browser that signed in. It may do what its user or its token may, and ends with them.
create table web_session (
  org_id        uuid        not null default app_org(),
  id            uuid        not null,
  user_id       uuid        not null,
  token_id      uuid,
  hash          bytea       not null check (length(hash) = 32),
  scopes        text[]      not null check (cardinality(scopes) > 0),
  created_at    timestamptz not null,
  last_seen_at  timestamptz not null,
  expires_at    timestamptz not null,
  ended_at      timestamptz,
  primary key (org_id, id),
  foreign key (org_id, user_id) references org_user (org_id, id),
  foreign key (org_id, token_id) references api_token (org_id, id)
);
create index web_session_hash on web_session (hash);
create index web_session_user on web_session (org_id, user_id);

alter table org_user enable row level security;
alter table org_user force row level security;
create policy tenant on org_user using (org_id = app_org()) with check (org_id = app_org());

alter table api_token enable row level security;
alter table api_token force row level security;
create policy tenant on api_token using (org_id = app_org()) with check (org_id = app_org());
create policy bearer on api_token for select using (hash = app_secret_hash());

alter table web_session enable row level security;
alter table web_session force row level security;
create policy tenant on web_session using (org_id = app_org()) with check (org_id = app_org());
create policy bearer on web_session for select using (hash = app_secret_hash());

grant select, insert, update on org_user, api_token, web_session to waybook_app;
grant update (name, review_policy) on org to waybook_app;
