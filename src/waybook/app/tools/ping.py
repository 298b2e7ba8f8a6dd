"""ping: check that the server and its database respond."""

from waybook.app.request.arguments import ReadArguments
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool
from waybook.json_values import Body, format_time


@Tool(
    title="Ping",
    description="Check that the server works.",
    reply={"status": "string"},
    reads_only=True,
    logged=False,
)
async def ping(ctx: RequestContext, _: ReadArguments) -> Body:
    now = await ctx.services.database.read_now(ctx.caller.org_id)
    return {
        "status": "ok",
        "now": format_time(now),
        "next": next_call("list_active_plans", "List the open plans."),
    }
