-- Settings of a database that is distributed over the nodes of a Citus cluster.

-- name: let_serving_role_log_in
-- The coordinator logs in to the other nodes as the role of the current transaction.
alter role waybook_app login;

-- name: pass_settings_on
-- Make every new session pass `set local` on to the nodes, because their policies need the org.
alter database {database} set citus.propagate_set_commands = 'local';
