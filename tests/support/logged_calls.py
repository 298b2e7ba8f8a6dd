"""Logged calls of the transaction's org, in batches and single, as one table for SQL texts."""

ALL_CALLS = """
(select at, id, tool, actor, channel, session, duration_ms, request_bytes, response_bytes, is_error,
        error_code, replayed, step_id, 0 as position
   from mcp_tool_call_log
  union all
 select b.at - make_interval(secs => (c.value ->> 0)::float8), b.id, c.value ->> 1, b.actor,
        b.channel, c.value ->> 2, (c.value ->> 3)::real, (c.value ->> 4)::integer,
        (c.value ->> 5)::integer, false, null, (c.value ->> 6)::boolean, (c.value ->> 7)::uuid,
        c.position
   from tool_call_batch b
  cross join lateral json_array_elements(b.calls) with ordinality as c (value, position)) as call
"""
