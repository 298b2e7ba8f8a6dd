-- name: try_lead
-- Take the leader's lock until the end of the transaction, and return whether it was free. A
-- standby has its own locks, so it cannot have a leader.
select not pg_is_in_recovery() and pg_try_advisory_xact_lock(718291004528)
  from set_config('idle_in_transaction_session_timeout', '0', true);

-- name: probe
select true;
