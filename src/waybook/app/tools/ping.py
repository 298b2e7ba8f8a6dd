"""ping: check that the server and its database respond."""

from waybook.app.request.arguments import ReadArguments
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool, output_schema
from waybook.json_values import Body, format_time


class Ping(ReadArguments):
    pass


async def ping(ctx: RequestContext, _: Ping) -> Body:
    """Return the database's time."""
    now = await ctx.services.database.read_now(ctx.caller.org_id)
    return {
        "status": "ok",
        "now": format_time(now),
        "next": next_call("list_active_plans", "List the open plans."),
    }


TOOL = Tool(
    name="ping",
    title="Ping",
    description="Check that the server works.",
    arguments=Ping,
    output_schema=output_schema(status="string"),
    run=ping,
    reads_only=True,
    logged=False,
)
