-- name: name_org_by_token
-- Set the transaction's org to the token's org.
select set_config('app.org_id', t.org_id::text, true) from api_token t where t.hash = app_secret_hash();

-- name: name_org_by_token_of_org
-- Set the transaction's org if the token belongs to the org that is named in the token's text.
select set_config('app.org_id', t.org_id::text, true)
  from api_token t
 where t.org_id = :org and t.hash = app_secret_hash();

-- name: bearer_of_token
:bearer_of_any_token;

-- name: bearer_of_token_of_org
-- As `bearer_of_token`, but only in the org that the token names.
:bearer_of_any_token
   and t.org_id = :org;

-- name: check_token
-- Fail unless the token is valid and equals its cached copy.
select app_refuse_unless(count(*) = 1, 'WB002')
  from api_token t
  join org_user u on u.id = t.user_id and u.org_id = t.org_id
 where t.org_id = :org
   and t.id = %(token_id)s::uuid and t.revoked_at is null
   and u.disabled_at is null and (t.expires_at is null or t.expires_at > app_now())
   and u.name = %(user)s
   and array_to_string(t.scopes, ',') = %(token_scopes)s
   and array_to_string(u.scopes, ',') = %(user_scopes)s;

-- name: lock_org
-- Lock the org, so that only one call at a time changes its users and tokens. This lock does not
-- block new plans of the org.
select org_id::text as id, slug, name, review_policy, created_at, audit_seq, audit_hash
  from org
 where org_id = :org
   for no key update;

-- name: last_entry_of_org
-- Return the time of the org's last audit entry. Run this after `lock_org`, which may have waited,
-- so that its own snapshot may be older than this entry.
select e.at
  from audit_entry e
 where e.org_id = :org
   and e.subject_id = :org::text
   and e.seq = (select o.audit_seq from org o where o.org_id = :org);

-- name: org
select org_id::text as id, slug, name, review_policy, created_at, audit_seq, audit_hash
  from org
 where org_id = :org;

-- name: users
select id::text, name, scopes, created_at, created_by, email, issuer, subject, disabled_at
  from org_user where org_id = :org
 order by name
 limit %(most)s;

-- name: user_by_name
select id::text, name, scopes, created_at, created_by, email, issuer, subject, disabled_at
  from org_user
 where org_id = :org and name = %(name)s;

-- name: tokens
-- Tokens that are not revoked come first. Within both groups, the newest come first.
select t.id::text, t.user_id::text, t.label, encode(t.hash, 'hex') as hash, t.scopes, t.created_at,
       t.created_by, t.expires_at, t.revoked_at, t.revoked_by, t.last_used_at, u.name as user
  from api_token t
  join org_user u on u.org_id = :org and u.id = t.user_id
 where t.org_id = :org
 order by (t.revoked_at is not null), t.created_at desc, t.id desc
 limit %(most)s;

-- name: token
select t.id::text, t.user_id::text, t.label, encode(t.hash, 'hex') as hash, t.scopes, t.created_at,
       t.created_by, t.expires_at, t.revoked_at, t.revoked_by, t.last_used_at, u.name as user
  from api_token t
  join org_user u on u.org_id = :org and u.id = t.user_id
 where t.org_id = :org and t.id = %(id)s;

-- name: stored_org
-- Return all rows that the org's audit covers, for a comparison with the rows rebuilt from the
-- audit.
select 'org' as entity, o.org_id::text as id, json_build_object(
         'slug', o.slug, 'name', o.name, 'review_policy', o.review_policy) as values
  from org o
 where o.org_id = %(org_id)s and o.audit_seq > 0
 union all
select 'user', u.id::text, json_build_object(
         'name', u.name, 'scopes', u.scopes, 'created_at', u.created_at,
         'created_by', u.created_by, 'email', u.email, 'issuer', u.issuer,
         'subject', u.subject, 'disabled_at', u.disabled_at)
  from org_user u where u.org_id = :org
 union all
select 'token', t.id::text, json_build_object(
         'user_id', t.user_id, 'label', t.label, 'hash', encode(t.hash, 'hex'),
         'scopes', t.scopes, 'created_at', t.created_at, 'created_by', t.created_by,
         'expires_at', t.expires_at, 'revoked_at', t.revoked_at, 'revoked_by', t.revoked_by)
  from api_token t
 where t.org_id = :org;

-- name: name_org_by_session
-- Set the transaction's org to the web session's org.
select set_config('app.org_id', s.org_id::text, true)
  from web_session s
 where s.hash = app_secret_hash();

-- name: name_org_by_session_of_org
-- Set the transaction's org if the web session belongs to the org that its secret names.
select set_config('app.org_id', s.org_id::text, true)
  from web_session s
 where s.org_id = :org and s.hash = app_secret_hash();

-- name: person_of_session
-- A web session becomes invalid when its user is disabled, or when its token is revoked or expires.
:person_of_any_session;

-- name: person_of_session_of_org
-- As `person_of_session`, but only in the org that the session names.
:person_of_any_session
   and s.org_id = :org;

-- name: insert_session
insert into web_session (id, user_id, hash, created_at, last_seen_at, expires_at)
values (%(id)s, %(user_id)s, %(hash)s, app_now(), app_now(), app_now() + interval '7 days');

-- name: insert_session_by_token
-- A web session gets the permissions of the token with which the user signed in.
insert into web_session (org_id, id, user_id, token_id, hash, created_at, last_seen_at, expires_at)
select t.org_id, %(id)s::uuid, t.user_id, t.id, %(hash)s::bytea, app_statement_time(),
       app_statement_time(), app_statement_time() + interval '7 days'
  from api_token t
 where t.org_id = :org and t.id = %(token_id)s;

-- name: session_seen
update web_session
   set last_seen_at = app_statement_time()
 where org_id = :org and id = %(id)s and last_seen_at < app_statement_time();

-- name: end_session
update web_session
   set ended_at = app_statement_time()
 where org_id = :org and id = %(id)s and ended_at is null;

-- name: add_org
insert into org (org_id, slug) values (%(org_id)s, %(slug)s) on conflict (org_id) do nothing;

-- name: orgs
select org_id::text as id, slug, name, review_policy, created_at
  from org
 order by slug;

-- name: review_policy
select review_policy from org where org_id = :org;

-- name: insert_user
insert into org_user (id, name, email, issuer, subject, scopes, created_at, created_by)
values (%(id)s, %(name)s, %(email)s, %(issuer)s, %(subject)s, %(scopes)s::text[], %(created_at)s,
        %(created_by)s);

-- name: enable_user
update org_user set disabled_at = %(disabled_at)s where org_id = :org and id = %(id)s;

-- name: set_user_scopes
update org_user set scopes = %(scopes)s::text[] where org_id = :org and id = %(id)s;

-- name: insert_token
insert into api_token (id, user_id, label, hash, scopes, created_at, created_by, expires_at)
values (%(id)s, %(user_id)s, %(label)s, decode(%(hash)s, 'hex'), %(scopes)s::text[],
        %(created_at)s, %(created_by)s, %(expires_at)s);

-- name: revoke_token
with written as (
  update api_token
     set revoked_at = %(revoked_at)s, revoked_by = %(revoked_by)s
   where org_id = :org and id = %(id)s and revoked_at is null
  returning 1)
select :one_row_or_stale from written;

-- name: update_org
-- Fail if the audit chain has advanced although the org is locked.
with written as (
  update org
     set name = %(name)s,
         review_policy = %(review_policy)s,
         audit_seq = %(audit_seq)s,
         audit_hash = %(audit_hash)s
   where org_id = :org and audit_seq = %(old_seq)s
  returning 1)
select :one_row_or_stale from written;

-- name: name_org_by_slug
-- Set the transaction's org to the org with this slug.
select set_config('app.org_id', org_id::text, true) from org where slug = %(slug)s;

-- name: close_directory
-- Hide the rows of all other orgs for the rest of the transaction.
select set_config('app.sweep', 'off', true);

-- name: member
-- Return the transaction's org, and its user with this issuer and subject.
select o.org_id, app_now() as now, u.id::text as user_id, u.name, u.scopes,
       u.disabled_at is not null as is_disabled
  from org o
  left join org_user u on u.issuer = %(issuer)s and u.subject = %(subject)s
 where o.org_id = app_org();

-- name: org_of_slug
select org_id from org where slug = %(slug)s;

-- name: member_of_org
-- As `member`, but only in the given org.
select o.org_id, app_now() as now, u.id::text as user_id, u.name, u.scopes,
       u.disabled_at is not null as is_disabled
  from org o
  left join org_user u on u.org_id = :org and u.issuer = %(issuer)s and u.subject = %(subject)s
 where o.org_id = :org;

-- name: tokens_used
-- Record the last use of tokens, at most once a minute. It is telemetry and not audited.
update api_token
   set last_used_at = app_statement_time()
 where org_id = :org
   and id = any (%(ids)s::uuid[])
   and (last_used_at is null or last_used_at < app_statement_time() - interval '1 minute');
