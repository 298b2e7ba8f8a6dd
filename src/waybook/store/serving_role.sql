-- name: name_of_user
-- Whoever we are to the server, as SQL writes it.
select quote_ident(session_user);

-- name: is_exempt
-- Whether no policy applies to the current role.
select rolsuper or rolbypassrls from pg_roles where rolname = current_user;
