-- name: try_lead
-- Take the leader's lock until the end of the transaction, and return whether this process has it.
-- A standby has its own locks, so it cannot have a leader.
select not pg_is_in_recovery() and pg_try_advisory_xact_lock(718291004528)
  from set_config('idle_in_transaction_session_timeout', '0', true);

-- name: try_deliver
-- Take the lock of the process that delivers webhooks, in the same way.
select not pg_is_in_recovery() and pg_try_advisory_xact_lock(718291004529)
  from set_config('idle_in_transaction_session_timeout', '0', true);
