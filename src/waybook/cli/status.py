"""`waybook status`: where a plan stands."""

import asyncio

import click
from rich.text import Text

from waybook.cli.board import Viewport, plan_display
from waybook.cli.costs import plan_usage_lines
from waybook.cli.inside import get_console, load_settings, open_app
from waybook.cli.options import database_options, json_option
from waybook.cli.pictures import export_options, pop_requested_exports, write_exports
from waybook.cli.printing import print_json
from waybook.doorway import Channel
from waybook.settings import Settings
from waybook.usecases.drawings import plan_drawing
from waybook.usecases.find_plans import resolve_plan
from waybook.usecases.links import review_url
from waybook.usecases.watch_plan import PlanOverview, read_plan_overview


@click.command()
@click.argument("plan", required=False)
@export_options
@json_option
@database_options
def command(*, plan: str | None, as_json: bool, **flags: object) -> None:
    """Show where a plan stands.

    PLAN is its id, the beginning of it, or a part of its name; leave it away if only one is open.
    """
    asked = pop_requested_exports(flags)
    settings = load_settings(flags)
    if as_json and not asked:
        body = asyncio.run(_answer(settings, plan))
        print_json(body, tight=True)
        return
    board, question = asyncio.run(_look(settings, plan))
    if asked:
        write_exports(plan_drawing(board), asked)
        return
    console = get_console()
    console.print(plan_display(board, Viewport(width=console.width)))
    console.print(Text.assemble(("question", "dim"), f"  {question}"))
    if board.review is not None:
        console.print(Text.assemble(("decide", "dim"), f"    {_place(settings, board)}"))
    for line in plan_usage_lines(board.plan):
        console.print(line)


def _place(settings: Settings, board: PlanOverview) -> str:
    return review_url(board.plan.id, settings.base_url)


async def _look(settings: Settings, text: str | None) -> tuple[PlanOverview, str]:
    async with open_app(settings) as here:
        plan = await resolve_plan(here.call, text)
        return await read_plan_overview(here.call, plan.id), plan.question


async def _answer(settings: Settings, text: str | None) -> dict[str, object]:
    async with open_app(settings) as here:
        plan = await resolve_plan(here.call, text)
        services = here.app
        asked = {"planId": plan.id}
        answer = await services.doorway.dispatch(
            services.caller(Channel.CLI), "get_plan_status", asked
        )
        return answer.body
