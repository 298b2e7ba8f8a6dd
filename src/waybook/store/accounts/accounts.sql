-- name: name_org_by_token
-- From here on the transaction is of the token's org; without such a token, of none.
select set_config('app.org_id', t.org_id::text, true) from api_token t where t.hash = app_secret_hash();

-- name: bearer_of_token
-- Whose token this is, if it counts: the hash says which, the org has been named by it.
select t.org_id, u.name as user, t.id::text as token_id, t.scopes as token_scopes, u.scopes as user_scopes,
       t.last_used_at is null or t.last_used_at < app_now() - interval '1 minute' as record_use
  from api_token t
  join org_user u on u.id = t.user_id and u.org_id = t.org_id
 where t.hash = app_secret_hash()
   and t.revoked_at is null
   and (t.expires_at is null or t.expires_at > app_now())
   and u.disabled_at is null;

-- name: tokens_used
-- Telemetry, as signs of life are: no chain accounts for it.
update api_token
   set last_used_at = app_now()
 where org_id = app_org()
   and id = any (%(ids)s::uuid[])
   and (last_used_at is null or last_used_at < app_now() - interval '1 minute');

-- name: lock_org
-- Whoever changes users and tokens takes turns; plans that point to the org do not wait.
select org_id::text as id, slug, name, review_policy, created_at, audit_seq, audit_hash
  from org
 where org_id = app_org()
   for no key update;

-- name: last_entry_of_org
-- When the org's chain was last written. Asked behind the lock, whose own snapshot may be older.
select e.at
  from audit_entry e
 where e.subject_id = app_org()
   and e.seq = (select o.audit_seq from org o where o.org_id = app_org());

-- name: org
select org_id::text as id, slug, name, review_policy, created_at, audit_seq, audit_hash
  from org
 where org_id = app_org();

-- name: users
select id::text, name, scopes, created_at, created_by, email, issuer, subject, disabled_at
  from org_user
 order by name
 limit %(most)s;

-- name: user_by_name
select id::text, name, scopes, created_at, created_by, email, issuer, subject, disabled_at
  from org_user
 where name = %(name)s;

-- name: tokens
-- Those that count first, the newest first.
select t.id::text, t.user_id::text, t.label, encode(t.hash, 'hex') as hash, t.scopes, t.created_at,
       t.created_by, t.expires_at, t.revoked_at, t.revoked_by, t.last_used_at, u.name as user
  from api_token t
  join org_user u on u.id = t.user_id
 where t.org_id = app_org()
 order by (t.revoked_at is not null), t.created_at desc, t.id desc
 limit %(most)s;

-- name: token
select t.id::text, t.user_id::text, t.label, encode(t.hash, 'hex') as hash, t.scopes, t.created_at,
       t.created_by, t.expires_at, t.revoked_at, t.revoked_by, t.last_used_at, u.name as user
  from api_token t
  join org_user u on u.id = t.user_id
 where t.org_id = app_org() and t.id = %(id)s;

-- name: stored_org
-- Everything the audit of an org accounts for, to hold against its replay.
select 'org' as entity, o.org_id::text as id, json_build_object(
         'slug', o.slug, 'name', o.name, 'review_policy', o.review_policy) as values
  from org o
 where o.org_id = %(org_id)s and o.audit_seq > 0
 union all
select 'user', u.id::text, json_build_object(
         'name', u.name, 'scopes', u.scopes, 'created_at', u.created_at,
         'created_by', u.created_by, 'email', u.email, 'issuer', u.issuer,
         'subject', u.subject, 'disabled_at', u.disabled_at)
  from org_user u
 union all
select 'token', t.id::text, json_build_object(
         'user_id', t.user_id, 'label', t.label, 'hash', encode(t.hash, 'hex'),
         'scopes', t.scopes, 'created_at', t.created_at, 'created_by', t.created_by,
         'expires_at', t.expires_at, 'revoked_at', t.revoked_at, 'revoked_by', t.revoked_by)
  from api_token t
 where t.org_id = app_org();

-- name: name_org_by_slug
-- From here on the transaction is of this org; of none, if there is no such org.
select set_config('app.org_id', org_id::text, true) from org where slug = %(slug)s;

-- name: close_directory
-- And sees no other org any more.
select set_config('app.sweep', 'off', true);

-- name: member
-- The org that was named, and its user of this sign-in, if there is one.
select o.org_id, app_now() as now, u.id::text as user_id, u.name, u.scopes,
       u.disabled_at is not null as is_disabled
  from org o
  left join org_user u on u.issuer = %(issuer)s and u.subject = %(subject)s
 where o.org_id = app_org();

-- name: name_org_by_session
-- From here on the transaction is of the session's org; without such a session, of none.
select set_config('app.org_id', s.org_id::text, true)
  from web_session s
 where s.hash = app_secret_hash();

-- name: person_of_session
-- Who sits at this browser, if its session still counts: it ends with its user and with its token.
select s.org_id, s.id::text as session_id, s.token_id::text, u.name, coalesce(o.name, o.slug) as org,
       u.scopes as user_scopes, t.scopes as token_scopes,
       s.last_seen_at < app_now() - interval '1 minute' as record_use
  from web_session s
  join org_user u on u.id = s.user_id
  join org o on o.org_id = s.org_id
  left join api_token t on t.id = s.token_id
 where s.hash = app_secret_hash()
   and s.ended_at is null
   and s.expires_at > app_now()
   and s.last_seen_at > app_now() - :idle_session
   and u.disabled_at is null
   and (s.token_id is null
        or (t.id is not null
            and t.revoked_at is null
            and (t.expires_at is null or t.expires_at > app_now())));

-- name: insert_session
insert into web_session (id, user_id, hash, created_at, last_seen_at, expires_at)
values (%(id)s, %(user_id)s, %(hash)s, app_now(), app_now(), app_now() + interval '7 days');

-- name: insert_session_by_token
-- The same for whoever showed a token: it may do what the token may.
insert into web_session (id, user_id, token_id, hash, created_at, last_seen_at, expires_at)
select %(id)s, t.user_id, t.id, %(hash)s, app_now(), app_now(), app_now() + interval '7 days'
  from api_token t
 where t.id = %(token_id)s;

-- name: session_seen
update web_session
   set last_seen_at = app_now()
 where id = %(id)s and last_seen_at < app_now();

-- name: end_session
update web_session
   set ended_at = app_now()
 where id = %(id)s and ended_at is null;

-- name: add_org
insert into org (org_id, slug) values (%(org_id)s, %(slug)s) on conflict (org_id) do nothing;

-- name: orgs
-- The directory, for whoever runs the server.
select org_id::text as id, slug, name, review_policy, created_at, audit_seq, audit_hash
  from org
 order by slug;

-- name: review_policy
select review_policy from org where org_id = app_org();
