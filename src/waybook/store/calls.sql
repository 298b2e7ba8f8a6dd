-- name: insert_calls
-- Insert calls, given as one JSON text. A list of values would have to be parsed and planned for
-- each number of calls.
insert into mcp_tool_call_log (at, id, tool, actor, channel, session, duration_ms, request_bytes,
                               response_bytes, is_error, error_code, replayed, step_id)
select n.at, n.id, n.tool, n.actor, n.channel, n.session, n.duration_ms, n.request_bytes,
       n.response_bytes, n.is_error, n.error_code, n.replayed, n.step_id
  from json_to_recordset(%(calls)s::json)
       as n (at timestamptz, id uuid, tool text, actor text, channel text, session text,
             duration_ms real, request_bytes integer, response_bytes integer, is_error boolean,
             error_code text, replayed boolean, step_id uuid);

-- name: calls_by_tool
-- Return for each tool the number of calls and errors, the median and 95th-percentile duration, and
-- the time of the last call. Only the latest calls of the last seconds are read, up to a limit.
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
-- Return the latest calls that ended in an error.
select l.at, l.tool, l.actor, l.channel, l.session, l.duration_ms, l.error_code as code
  from mcp_tool_call_log l
 where l.org_id = :org
   and l.at >= (select app_now() - make_interval(secs => %(seconds)s::integer))
   and l.is_error
 order by l.at desc, l.id desc
 limit %(most)s;

-- name: calls_of_step
-- Return the latest calls about a step.
select l.at, l.tool, l.actor, l.channel, l.session, l.duration_ms, l.error_code as code
  from mcp_tool_call_log l
 where l.org_id = :org and l.step_id = %(step_id)s
 order by l.at desc, l.id desc
 limit %(most)s;

-- name: stored_answer
select encode(arguments_hash, 'hex') as arguments_hash, is_error, answer,
       encode(packed, 'hex') as packed
  from idempotency_answer
 where org_id = :org and tool = %(tool)s and key = %(key)s;

-- name: insert_own_usage
-- Insert the usage of the server's own model. It belongs to no step and no job, and is not audited.
insert into usage (id, attempt, input_tokens, output_tokens, cost_micros, model, at, by)
values (%(id)s, 1, %(input_tokens)s, %(output_tokens)s, %(cost_micros)s, %(model)s, %(at)s, %(by)s);

-- name: usage_totals
-- Return the org's total usage since a given time, by default in the last 30 days.
select :usage_sums,
       coalesce(%(since)s::timestamptz, app_now() - interval '30 days') as since, app_now() as until
  from usage u
 where u.org_id = :org and u.at >= coalesce(%(since)s::timestamptz, app_now() - interval '30 days');

-- name: usage_by_model
-- Return the org's usage per model, highest cost first, and the number of models in all.
select :usage_sums, u.model, count(*) over () as total
  from usage u
 where u.org_id = :org and u.at >= coalesce(%(since)s::timestamptz, app_now() - interval '30 days')
 group by u.model
 order by 3 desc, 1 desc, 2 desc, u.model
 limit %(most)s;

-- name: usage_by_work
-- Return the org's usage per plan, per run and of the server's own model, highest cost first.
select g.input_tokens, g.output_tokens, g.cost_micros, g.results,
       g.plan_id::text, g.run_id::text, coalesce(p.name, r.name, 'extract_data') as name, g.total
  from (select :usage_sums, u.plan_id, u.run_id, count(*) over () as total
          from usage u
         where u.org_id = :org
           and u.at >= coalesce(%(since)s::timestamptz, app_now() - interval '30 days')
         group by u.plan_id, u.run_id
         order by 3 desc, 1 desc, 2 desc, u.plan_id, u.run_id
         limit %(most)s) g
  left join plan p on p.org_id = :org and p.id = g.plan_id
  left join run r on r.org_id = :org and r.id = g.run_id
 order by 3 desc, 1 desc, 2 desc, g.plan_id, g.run_id;

-- name: usage_of_steps
-- Return the usage of each step of a plan over all its attempts. Deleted steps are included.
select :usage_sums, u.step_id::text
  from usage u
 where u.org_id = :org and u.plan_id = %(plan_id)s
 group by u.step_id;
