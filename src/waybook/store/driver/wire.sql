-- name: set_session
-- What holds for our statements: they look rows up by key, so one plan serves all values and goes
-- through indexes; none is worth compiling, which a server does where it thinks a plan costly; and
-- none takes for ever, nor does a transaction that a vanished server left open. It holds for the
-- session; but if the server is not the one we are told we are connected to, a pooler stands in
-- between and the session is not ours alone: then for this transaction only.
select pg_backend_pid(),
       set_config('lock_timeout', %(lock_timeout)s, pg_backend_pid() <> %(pid)s),
       set_config('statement_timeout', %(statement_timeout)s, pg_backend_pid() <> %(pid)s),
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s, pg_backend_pid() <> %(pid)s),
       set_config('plan_cache_mode', 'force_generic_plan', pg_backend_pid() <> %(pid)s),
       set_config('enable_seqscan', 'off', pg_backend_pid() <> %(pid)s),
       set_config('enable_hashjoin', 'off', pg_backend_pid() <> %(pid)s),
       set_config('enable_mergejoin', 'off', pg_backend_pid() <> %(pid)s),
       set_config('jit', 'off', pg_backend_pid() <> %(pid)s);
