-- name: insert_calls
insert into mcp_tool_call_log (at, id, tool, actor, channel, session, duration_ms, request_bytes,
                               response_bytes, is_error, error_code, replayed)
values %(rows)s;
