-- Which step a call was about, for the page that shows it whole.

alter table mcp_tool_call_log add column step_id uuid;
create index mcp_tool_call_log_step on mcp_tool_call_log (org_id, step_id, at)
  where step_id is not null;
