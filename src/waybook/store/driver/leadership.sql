-- name: try_lead
-- Try to take the leader's lock until the end of the transaction, and return whether this process
-- has it. A standby has its own locks, so it cannot have a leader.
select not pg_is_in_recovery() and pg_try_advisory_xact_lock(718291004528)
  from set_config('idle_in_transaction_session_timeout', '0', true);

-- name: try_deliver
-- As `try_lead`, for the lock of the process that sends webhook messages.
select not pg_is_in_recovery() and pg_try_advisory_xact_lock(718291004529)
  from set_config('idle_in_transaction_session_timeout', '0', true);
