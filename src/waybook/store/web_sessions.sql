-- name: name_org_by_session
-- From here on the transaction is of the session's org; without such a session, of none.
select set_config('app.org_id', s.org_id::text, true)
  from web_session s
 where s.hash = app_secret_hash();

-- name: person_of_session
-- Who sits at this browser, if its session still counts: it ends with its user and with its token.
select s.org_id, s.id::text, s.token_id::text, u.name, coalesce(o.name, o.slug),
       u.scopes, t.scopes,
       s.last_seen_at < app_now() - interval '1 minute'
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
