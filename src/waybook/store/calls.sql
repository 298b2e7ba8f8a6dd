-- name: calls_by_tool
-- Return the number of calls and errors of each tool, and the durations of its calls. Only the
-- latest calls of the period are read.
select c.tool, count(*) as calls, count(*) filter (where c.is_error) as errors,
       percentile_cont(0.5) within group (order by c.duration_ms) as p50,
       percentile_cont(0.95) within group (order by c.duration_ms) as p95,
       max(c.at) as last_at
  from (select l.tool, l.is_error, l.duration_ms, l.at
          from mcp_tool_call_log l
         where l.org_id = :org
           and l.at >= (select app_now() - make_interval(secs => %(seconds)s::integer))
         order by l.at desc
         limit %(most)s) c
 group by c.tool
 order by count(*) desc, c.tool;

-- name: last_errors
select l.at, l.tool, l.actor, l.channel, l.session, l.duration_ms, l.error_code as code
  from mcp_tool_call_log l
 where l.org_id = :org
   and l.at >= (select app_now() - make_interval(secs => %(seconds)s::integer))
   and l.is_error
 order by l.at desc, l.id desc
 limit %(most)s;

-- name: calls_of_step
select l.at, l.tool, l.actor, l.channel, l.session, l.duration_ms, l.error_code as code
  from mcp_tool_call_log l
 where l.org_id = :org and l.step_id = %(step_id)s::text
 order by l.at desc, l.id desc
 limit %(most)s;

-- name: insert_calls
insert into mcp_tool_call_log (at, id, tool, actor, channel, session, duration_ms, request_bytes,
                               response_bytes, is_error, error_code, replayed, step_id)
values %(rows)s;

-- name: insert_answer
insert into idempotency_answer (tool, key, arguments_hash, is_error, answer, created_at)
values %(merged_rows)s;

-- name: stored_answer
select encode(arguments_hash, 'hex') as arguments_hash, is_error, answer
  from idempotency_answer
 where org_id = :org and tool = %(tool)s and key = %(key)s;

-- name: insert_own_usage
-- Insert the usage of the server's own model, which belongs to no step or job and is not audited.
insert into usage (id, attempt, input_tokens, output_tokens, cost_micros, model, at, by)
values (%(id)s, 1, %(input_tokens)s, %(output_tokens)s, %(cost_micros)s, %(model)s, %(at)s, %(by)s);

-- name: usage_totals
-- Return the org's total usage in a period. The default is the last 30 days.
select :usage_sums,
       coalesce(%(since)s::timestamptz, app_now() - interval '30 days') as since,
       coalesce(%(until)s::timestamptz, app_now()) as until
  from usage u
 where u.org_id = :org and :usage_is_in_period;

-- name: usage_by_model
-- Return the org's usage per model, highest cost first.
select :usage_sums, u.model, count(*) over () as total
  from usage u
 where u.org_id = :org and :usage_is_in_period
 group by u.model
 order by 3 desc, 1 desc, 2 desc, u.model
 limit %(most)s;

-- name: usage_by_work
-- Return the org's usage per plan, per run and of the server's own model, highest cost first.
select g.input_tokens, g.output_tokens, g.cost_micros, g.results,
       g.plan_id::text, g.run_id::text, coalesce(p.name, r.name, 'extract_data') as name, g.total
  from (select :usage_sums, u.plan_id, u.run_id, count(*) over () as total
          from usage u
         where u.org_id = :org and :usage_is_in_period
         group by u.plan_id, u.run_id
         order by 3 desc, 1 desc, 2 desc, u.plan_id, u.run_id
         limit %(most)s) g
  left join plan p on p.org_id = :org and p.id = g.plan_id
  left join run r on r.org_id = :org and r.id = g.run_id
 order by 3 desc, 1 desc, 2 desc, g.plan_id, g.run_id;

-- name: budgets
-- Add up the cost budgets of the plans that have usage in a period, and the cost of these plans.
select count(*) as plans, coalesce(sum(b.spent), 0)::bigint as spent_micros,
       coalesce(sum(b.most), 0)::bigint as limit_micros,
       count(*) filter (where b.spent > b.most) as exceeded
  from (select (p.budget ->> 'cost_micros')::bigint as most,
               coalesce((p.usage ->> 'cost_micros')::bigint, 0) as spent
          from (select distinct u.plan_id
                  from usage u
                 where u.org_id = :org and u.plan_id is not null and :usage_is_in_period
                 limit 2000) u
          join plan p on p.org_id = :org and p.id = u.plan_id
         where p.budget ->> 'cost_micros' is not null) b;

-- name: usage_of_steps
-- Return the usage of each step of a plan, including deleted steps.
select :usage_sums, u.step_id::text
  from usage u
 where u.org_id = :org and u.plan_id = %(plan_id)s
 group by u.step_id;
