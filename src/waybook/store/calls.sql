-- name: calls_by_tool
-- Return the number of calls, errors and durations of each tool. Only the latest calls of the
-- period are read.
select c.tool, count(*) as calls, count(*) filter (where c.is_error) as errors,
       percentile_cont(0.5) within group (order by c.duration_ms) as p50,
       percentile_cont(0.95) within group (order by c.duration_ms) as p95,
       max(c.at) as last_at
  from (select u.tool, u.is_error, u.duration_ms, u.at
          from ((select l.tool, l.is_error, l.duration_ms, l.at
                   from mcp_tool_call_log l
                  where l.org_id = :org
                    and l.at >= (select app_now() - make_interval(secs => %(seconds)s::integer))
                  order by l.at desc
                  limit %(most)s)
                 union all
                (select c.value ->> 1, false, (c.value ->> 3)::real, :time_of_batched_call
                   from (select b.at, b.calls, b.size,
                                sum(b.size) over (order by b.at desc, b.id desc) as counted
                           from tool_call_batch b
                          where b.org_id = :org
                            and b.at >= (select app_now()
                                                - make_interval(secs => %(seconds)s::integer))
                          order by b.at desc, b.id desc
                          limit %(most)s) b
                  cross join lateral json_array_elements(b.calls) c
                  where b.counted - b.size < %(most)s
                    and :time_of_batched_call
                        >= (select app_now() - make_interval(secs => %(seconds)s::integer)))) u
         order by u.at desc
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
-- Return the latest calls about a step. The clocks of the database and the server may differ, so a
-- call is searched in the first batches written after its audit entries.
select c.at, c.tool, c.actor, c.channel, c.session, c.duration_ms, c.code
  from ((select l.at, l.tool, l.actor, l.channel, l.session, l.duration_ms, l.error_code as code,
                l.id
           from mcp_tool_call_log l
          where l.org_id = :org and l.step_id = %(step_id)s::uuid
          order by l.at desc, l.id desc
          limit %(most)s)
         union
        (select :time_of_batched_call, c.value ->> 1, b.actor, b.channel, c.value ->> 2,
                (c.value ->> 3)::real, null, b.id
           from (select e.at
                   from audit_entry e
                  where e.org_id = :org
                    and e.subject_id = %(plan_id)s
                    and strpos(:details_of_entry, %(step_id)s::text) > 0
                  order by e.seq desc
                  limit %(most)s) e
          cross join lateral (select b.*
                                from tool_call_batch b
                               where b.org_id = :org and b.at >= e.at - interval '1 second'
                               order by b.at
                               limit %(batches)s) b
          cross join lateral json_array_elements(b.calls) c
          where strpos(b.calls::text, %(step_id)s::text) > 0
            and c.value ->> 7 = %(step_id)s::text)) c
 order by c.at desc, c.id desc
 limit %(most)s;

-- name: insert_answer
insert into idempotency_answer (tool, key, arguments_hash, is_error, answer, packed, created_at)
values %(merged_rows)s;

-- name: stored_answer
select encode(arguments_hash, 'hex') as arguments_hash, is_error, answer,
       encode(packed, 'hex') as packed
  from idempotency_answer
 where org_id = :org and tool = %(tool)s and key = %(key)s;

-- name: insert_own_usage
-- Insert the usage of the server's own model, which belongs to no step or job and is not audited.
insert into usage (id, attempt, input_tokens, output_tokens, cost_micros, model, at, by)
values (%(id)s, 1, %(input_tokens)s, %(output_tokens)s, %(cost_micros)s, %(model)s, %(at)s, %(by)s);

-- name: usage_totals
-- Return the org's total usage since a time. The default is the last 30 days.
select :usage_sums,
       coalesce(%(since)s::timestamptz, app_now() - interval '30 days') as since, app_now() as until
  from usage u
 where u.org_id = :org and u.at >= coalesce(%(since)s::timestamptz, app_now() - interval '30 days');

-- name: usage_by_model
-- Return the org's usage per model, highest cost first.
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
-- Return the usage of each step of a plan, including deleted steps.
select :usage_sums, u.step_id::text
  from usage u
 where u.org_id = :org and u.plan_id = %(plan_id)s
 group by u.step_id;
