-- name: tokens_used
-- Record the last use of tokens, at most once a minute. It is telemetry and not audited.
update api_token
   set last_used_at = app_statement_time()
 where org_id = :org
   and id = any (%(ids)s::uuid[])
   and (last_used_at is null or last_used_at < app_statement_time() - interval '1 minute');
