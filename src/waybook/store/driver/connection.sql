-- name: set_small_memory
select set_config('work_mem', '64kB', true);

-- name: write_temporary_file
-- After `set_small_memory`, write a temporary file of about 2 MB next to the tables. This fails if
-- the disk is full.
select count(*) from generate_series(1, 100000);

-- name: set_session
-- Configure the database session for our statements. They look up rows by key, so one generic query
-- plan with indexes fits all values, and JIT compilation never pays off. Citus chooses the node
-- while it plans a query, so in a cluster each execution is planned. Sequential scans are disabled,
-- because a query plan made for a small table is kept until the table is analyzed again. If the
-- backend's process id is not `pid`, a pooler shares the session with other clients, and the
-- settings apply to this transaction only. Citus passes `set local` on to the nodes, whose
-- row-level security needs the org.
select pg_backend_pid(), c.is_cluster,
       set_config('lock_timeout', %(lock_timeout)s, pg_backend_pid() <> %(pid)s),
       set_config('statement_timeout', %(statement_timeout)s, pg_backend_pid() <> %(pid)s),
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s, pg_backend_pid() <> %(pid)s),
       set_config('plan_cache_mode',
                  case when c.is_cluster then 'force_custom_plan' else 'force_generic_plan' end,
                  pg_backend_pid() <> %(pid)s),
       case when c.is_cluster
            then set_config('citus.propagate_set_commands', 'local', pg_backend_pid() <> %(pid)s) end,
       set_config('enable_seqscan', 'off', pg_backend_pid() <> %(pid)s),
       set_config('jit', 'off', pg_backend_pid() <> %(pid)s)
  from (select exists (select from pg_extension where extname = 'citus') as is_cluster) c;
