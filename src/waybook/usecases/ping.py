"""ping: whether anybody is there, down to the database."""

from datetime import datetime

from waybook.usecases.arguments import Reading
from waybook.usecases.call import Body, Call
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import Tool
from waybook.usecases.views import following, moment


class Ping(Reading):
    pass


async def ping(call: Call, _: Ping) -> Body:
    """Answer with the database's time."""
    (rows, *_rest) = await call.read("select app_now()")
    now: datetime = rows[0][0]
    return {
        "status": "ok",
        "now": moment(now),
        "next": following("list_active_plans", "see what is open"),
    }


TOOL = Tool(
    name="ping",
    title="Ping",
    description="Is the server alive?",
    arguments=Ping,
    output_schema=output_schema(status="string"),
    run=ping,
    reads_only=True,
    logged=False,
)
