-- name: name_of_user
-- Whoever we are to the server, as SQL writes it.
select quote_ident(session_user);
