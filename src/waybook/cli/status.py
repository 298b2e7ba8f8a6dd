"""`waybook status`: where a plan stands."""

import asyncio

import click
from rich.text import Text

from waybook.cli.board import Frame, picture
from waybook.cli.costs import plan_lines
from waybook.cli.inside import inside, quiet_settings, the_console
from waybook.cli.options import as_json, database_options
from waybook.cli.pictures import asked_pictures, picture_options, write_pictures
from waybook.cli.printing import say_json
from waybook.doorway import Channel
from waybook.settings import Settings
from waybook.usecases.drawings import plan_drawing
from waybook.usecases.find_plans import meant_plan
from waybook.usecases.links import review_url
from waybook.usecases.watch_plan import Board, watch_plan


@click.command()
@click.argument("plan", required=False)
@picture_options
@as_json
@database_options
def command(*, plan: str | None, as_json: bool, **flags: object) -> None:
    """Show where a plan stands.

    PLAN is its id, the beginning of it, or a part of its name; leave it away if only one is open.
    """
    asked = asked_pictures(flags)
    settings = quiet_settings(flags)
    if as_json and not asked:
        body = asyncio.run(_answer(settings, plan))
        say_json(body, tight=True)
        return
    board, question = asyncio.run(_look(settings, plan))
    if asked:
        write_pictures(plan_drawing(board), asked)
        return
    console = the_console()
    console.print(picture(board, Frame(width=console.width)))
    console.print(Text.assemble(("question", "dim"), f"  {question}"))
    if board.review is not None:
        console.print(Text.assemble(("decide", "dim"), f"    {_place(settings, board)}"))
    for line in plan_lines(board.plan):
        console.print(line)


def _place(settings: Settings, board: Board) -> str:
    return review_url(board.plan.id, settings.base_url)


async def _look(settings: Settings, text: str | None) -> tuple[Board, str]:
    async with inside(settings) as here:
        plan = await meant_plan(here.call, text)
        return await watch_plan(here.call, plan.id), plan.question


async def _answer(settings: Settings, text: str | None) -> dict[str, object]:
    async with inside(settings) as here:
        plan = await meant_plan(here.call, text)
        house = here.house
        asked = {"planId": plan.id}
        answer = await house.doorway.enter(house.caller(Channel.CLI), "get_plan_status", asked)
        return answer.body
