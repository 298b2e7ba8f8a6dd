"""Count of the open work of one org, for the metrics endpoint."""

from waybook.app.request.request_context import RequestContext
from waybook.store.deliveries import work_count_statement


async def count_work(ctx: RequestContext) -> int:
    ((row,),) = await ctx.read(work_count_statement())
    ctx.services.work.put(ctx.caller.org_id, row)
    return 1
