"""`waybook search`: what was learnt before, found by words and by meaning."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

import click
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from waybook.cli.inside import inside, quiet_settings, the_console
from waybook.cli.options import as_json, database_options
from waybook.cli.printing import say_json
from waybook.record.spans import ago
from waybook.settings import Settings
from waybook.usecases.arguments import read_arguments
from waybook.usecases.find_plans import meant_plan
from waybook.usecases.search_sources import SearchSources, search_sources

#: A part of the reply.
Body: TypeAlias = dict[str, Any]

MOST_NAMED = 2


@click.command()
@click.argument("query")
@click.option("--plan", metavar="PLAN", help="Only what belongs to this plan.")
@click.option("--kind", "kinds", metavar="KIND", multiple=True, help="Only of this kind.")
@click.option("--limit", type=click.IntRange(1, 50), default=10, help="At most so many (10).")
@as_json
@database_options
def command(
    *,
    query: str,
    plan: str | None,
    kinds: tuple[str, ...],
    limit: int,
    as_json: bool,
    **flags: object,
) -> None:
    """Search what agents stored, by words and by meaning."""
    settings = quiet_settings(flags)
    asked: Body = {"query": query, "limit": limit, **({"kinds": [*kinds]} if kinds else {})}
    found, now = asyncio.run(_search(settings, plan, asked))
    if as_json:
        say_json(found)
        return
    console = the_console()
    for place, hit in enumerate(found["hits"], 1):
        console.print(_hit(place, hit, now), "")
    what = f"{len(found['hits'])} shown" if found["hits"] else "Nothing was found"
    more = ", there are more" if "nextCursor" in found else ""
    console.print(Text(f"{what}{more}; searched by {found['searched']}", style="dim"))
    if found["hits"]:
        read = found["hits"][0]["read"]
        told = json.dumps(read["args"])
        console.print(Text(f"Read one whole: waybook call {read['tool']} '{told}'", style="dim"))


async def _search(settings: Settings, plan: str | None, asked: Body) -> tuple[Body, datetime]:
    async with inside(settings) as here:
        if plan is not None:
            asked = {**asked, "planId": (await meant_plan(here.call, plan)).id}
        (now,) = await here.call.read("select app_now()")
        found = await search_sources(here.call, read_arguments(SearchSources, asked))
        return found, now[0][0].astimezone(UTC)


def _hit(place: int, hit: Body, now: datetime) -> Group:
    head = Table.grid(expand=True, padding=(0, 1))
    head.add_column(width=3, justify="right")
    head.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    head.add_column(no_wrap=True, justify="right")
    title = Text(plain(hit["title"]), style="bold").append(f"  {hit['kind']}", style="cyan")
    when = ago(datetime.fromisoformat(hit["createdAt"]), now)
    head.add_row(f"{place}.", title, Text(f"{plain(hit['createdBy'])}, {when}", style="dim"))
    return Group(head, *(Padding(line, (0, 0, 0, 4)) for line in _lines(hit)))


def _lines(hit: Body) -> Iterator[Text]:
    yield _marked(plain(hit["snippet"]))
    yield Text(" · ".join([*map(_why, hit["why"])]), style="dim")
    named = hit.get("sources", [])
    for source in named[:MOST_NAMED]:
        yield Text(f"↳ {plain(source['title'])} {plain(source.get('url', ''))}".rstrip())
    left = len(named) - MOST_NAMED + hit.get("moreSources", 0)
    if left > 0:
        yield Text(f"↳ and {left} more", style="dim")
    if "url" in hit:
        yield Text(plain(hit["url"]))
    yield Text(hit["id"], style="dim")


def _marked(text: str) -> Text:
    """A snippet with the words between its marks in bold."""
    said = Text()
    for place, piece in enumerate(text.split("**")):
        said.append(piece, style="bold yellow" if place % 2 else "")
    return said


def _why(reason: Body) -> str:
    if reason["by"] == "meaning":
        return f"meaning {reason['nearness']:.2f}, place {reason['rank']}"
    words = ", ".join(map(plain, reason["words"])) or "words"
    return f"{words}: {reason['covers']:.0%} of the question, place {reason['rank']}"


def plain(text: str) -> str:
    r"""A stored text on one line, without what a terminal would obey.

    >>> plain("a\n\x1b[31mb")
    'a [31mb'
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
