-- Oldest compatible migration: 0029
--
-- Defaults that a cluster evaluates on its coordinator, when it inserts lists of rows on one node.

-- The number of a transaction does not change within a statement. A cluster would evaluate a
-- volatile function on each node, but `passage_embedding` and `passage_deletion` store numbers of
-- the coordinator.
alter function app_transaction() stable;

alter table agent
  alter column first_seen_at set default app_statement_time(),
  alter column last_seen_at set default app_statement_time();
