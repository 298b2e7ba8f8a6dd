-- name: insert_calls
insert into mcp_tool_call_log (at, id, tool, actor, channel, session, duration_ms, request_bytes,
                               response_bytes, is_error, error_code, replayed, step_id)
values %(rows)s;

-- name: insert_batches
insert into tool_call_batch (at, id, actor, channel, size, calls)
values %(rows)s;
