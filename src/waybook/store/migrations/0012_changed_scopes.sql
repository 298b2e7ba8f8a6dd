-- What a user may do can be changed, and counts at once wherever they have signed in: a browser may do
-- what its user and its token may, and has no scopes of its own.

alter table web_session drop column scopes;

-- What somebody is called, and by what they are known, stays: they can be limited and kept out.
revoke update on org_user from waybook_app;
grant update (scopes, disabled_at) on org_user to waybook_app;

-- A browser can be seen and let go.
revoke update on web_session from waybook_app;
grant update (last_seen_at, ended_at) on web_session to waybook_app;
