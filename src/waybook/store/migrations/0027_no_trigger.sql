-- What a cluster that distributes the tables by org does not run: triggers, and functions without
-- a stable result in updates.
--
-- Oldest compatible migration: 0026

-- The statements that delete passages record the deletion themselves. A server that knows only
-- migration 0026 does not record it: other servers then rank the passage until they restart or load
-- the embeddings again, but do not find it.
drop trigger passage_deleted on passage;
drop function note_deleted_passages();

-- Time at which the statement began, for updates; `app_now()` returns the current time and is
-- therefore volatile. It is not written in SQL, because PostgreSQL would insert its body into the
-- update, and Citus refuses stable functions within `coalesce`.
create function app_statement_time() returns timestamptz
  language plpgsql stable parallel safe
  as $$
begin
  return coalesce(nullif(current_setting('app.now', true), '')::timestamptz, statement_timestamp());
end $$;
