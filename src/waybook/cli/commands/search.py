"""`waybook search`: full-text and semantic search over the texts that agents stored."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, TypeAlias

import click
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from waybook.cli.access import Server, server_command
from waybook.cli.options import json_option
from waybook.cli.output import print_json
from waybook.cli.terminal.console import SafeConsole
from waybook.core.durations import format_age
from waybook.research.query import MAX_QUERY_LENGTH

Body: TypeAlias = dict[str, Any]

MAX_NAMES_LISTED = 2


def _check_query(_: click.Context, __: click.Parameter, query: str) -> str:
    if not query.strip():
        raise click.BadParameter("the query is empty", param_hint="QUERY")
    return query[:MAX_QUERY_LENGTH]


@server_command(
    click.argument("query", callback=_check_query),
    click.option("--plan", metavar="PLAN", help="Limit to this plan."),
    click.option("--kind", "kinds", metavar="KIND", multiple=True, help="Limit to this kind."),
    click.option(
        "--limit",
        type=click.IntRange(1, 50),
        default=10,
        help="Maximum number to show (default: 10).",
    ),
    json_option,
)
def command(
    server: Server,
    *,
    query: str,
    plan: str | None,
    kinds: tuple[str, ...],
    limit: int,
    as_json: bool,
) -> None:
    """Search stored research (full-text and semantic)."""
    arguments: Body = {"query": query, "limit": limit}
    arguments |= {"planId": server.read("plan", q=plan)["planId"]} if plan is not None else {}
    arguments |= {"kinds": [kind.strip() for kind in kinds]} if kinds else {}
    results = server.call("search_sources", arguments)
    if as_json:
        print_json(results)
        return
    console, now = SafeConsole(), datetime.fromisoformat(server.call("ping", {})["now"])
    for line in _found(results, now):
        console.print(line)


def _found(results: Body, now: datetime) -> Iterator[RenderableType]:
    hits = results["hits"]
    for place, hit in enumerate(hits, 1):
        yield _hit(place, hit, now)
        yield ""
    what = f"{len(hits)} shown" if hits else "Nothing was found"
    more = ", there are more" if "nextCursor" in results else ""
    yield Text(f"{what}{more}; searched by {results['searched']}", style="dim")
    if hits:
        read = hits[0]["read"]
        args = json.dumps(read["args"])
        yield Text(f"Read one in full: waybook call {read['tool']} '{args}'", style="dim")


def _hit(place: int, hit: Body, now: datetime) -> Group:
    head = Table.grid(expand=True, padding=(0, 1))
    head.add_column(width=3, justify="right")
    head.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    head.add_column(no_wrap=True, justify="right")
    title = Text(_single_line(hit["title"]), style="bold").append(f"  {hit['kind']}", style="cyan")
    when = format_age(datetime.fromisoformat(hit["createdAt"]), now)
    head.add_row(f"{place}.", title, Text(f"{_single_line(hit['createdBy'])}, {when}", style="dim"))
    return Group(head, *(Padding(line, (0, 0, 0, 4)) for line in _lines(hit)))


def _lines(hit: Body) -> Iterator[Text]:
    snippet = Text()
    for place, piece in enumerate(_single_line(hit["snippet"]).split("**")):
        snippet.append(piece, style="bold yellow" if place % 2 else "")
    yield snippet
    yield Text(" · ".join(map(_why, hit["why"])), style="dim")
    named = hit.get("sources", [])
    for source in named[:MAX_NAMES_LISTED]:
        yield Text(
            f"↳ {_single_line(source['title'])} {_single_line(source.get('url', ''))}".rstrip()
        )
    left = len(named) - MAX_NAMES_LISTED + hit.get("moreSources", 0)
    if left > 0:
        yield Text(f"↳ and {left} more", style="dim")
    if "url" in hit:
        yield Text(_single_line(hit["url"]))
    yield Text(hit["id"], style="dim")


def _why(reason: Body) -> str:
    if reason["by"] == "meaning":
        return f"meaning {reason['nearness']:.2f}, place {reason['rank']}"
    words = ", ".join(map(_single_line, reason["words"])) or "words"
    return f"{words}: {reason['covers']:.0%} of the question, place {reason['rank']}"


def _single_line(text: str) -> str:
    r"""Return a stored text as one line without control characters.

    >>> _single_line("a\n\x1b[31mb")
    'a [31mb'
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
