-- name: flushed
-- Every acknowledged change is before this position of the primary's log.
select pg_current_wal_flush_lsn()::text as position;

-- name: replayed
-- Return whether the standby has replayed the log up to a position, and the age of its last
-- replayed transaction. A server that is no longer a standby is not current.
select pg_is_in_recovery()
       and coalesce(pg_last_wal_replay_lsn() >= %(position)s::text::pg_lsn, false) as is_current,
       extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())::float8 as seconds;
