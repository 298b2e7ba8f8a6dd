-- name: insert_calls
insert into mcp_tool_call_log (at, id, tool, actor, channel, session, duration_ms, request_bytes,
                               response_bytes, is_error, error_code, replayed, step_id)
values %(rows)s;

-- name: calls_by_tool
-- Calls of the last seconds by tool, as far as the latest so many go: how many, how many of them
-- errors, how long they took in the middle and at the slow end, when the last one was.
select c.tool, count(*), count(*) filter (where c.is_error),
       percentile_cont(0.5) within group (order by c.duration_ms),
       percentile_cont(0.95) within group (order by c.duration_ms),
       max(c.at)
  from (select l.tool, l.is_error, l.duration_ms, l.at
          from mcp_tool_call_log l
         where l.at >= (select app_now() - make_interval(secs => %(seconds)s::integer))
         order by l.at desc
         limit %(most)s) c
 group by c.tool
 order by count(*) desc, c.tool;

-- name: last_errors
-- The latest calls that were refused.
select l.at, l.tool, l.actor, l.channel, l.session, l.duration_ms, l.error_code
  from mcp_tool_call_log l
 where l.at >= (select app_now() - make_interval(secs => %(seconds)s::integer))
   and l.is_error
 order by l.at desc, l.id desc
 limit %(most)s;

-- name: calls_of_step
-- The latest calls about a step.
select l.at, l.tool, l.actor, l.channel, l.session, l.duration_ms, l.error_code
  from mcp_tool_call_log l
 where l.step_id = %(step_id)s
 order by l.at desc, l.id desc
 limit %(most)s;
