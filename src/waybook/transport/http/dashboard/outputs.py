"""Lists of outputs, and the page of one output: rendered Markdown, a table, or plain text."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from starlette.responses import Response

from waybook.app.queries.documents import latest_outputs, plan_outputs, read_output
from waybook.app.request.caller import ReadableOutput
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.html.layout import document_html

MARKDOWN: Final = frozenset({"text/markdown", "text/x-markdown"})
_SEPARATORS: Final = {"text/csv": ",", "text/tab-separated-values": "\t"}
MAX_SHOWN_LENGTH: Final = 200_000
MAX_ROWS, _MAX_COLUMNS, _MAX_CELL_LENGTH = 500, 40, 300
MAX_VERSIONS: Final = 20
_CHARACTERS_PER_COST: Final = 50


async def output_list(page: PageRequest) -> Response:
    behind = page.query("behind")
    outputs, cursor = await latest_outputs(await page.context(), behind)
    return await page.render(
        "outputs",
        outputs=outputs,
        first=behind is None,
        further=page.url_with(behind=cursor) if cursor else None,
    )


async def plan_output_list(page: PageRequest) -> Response:
    plan_id = page.path("plan_id")
    name, outputs = await plan_outputs(await page.context(), plan_id)
    return await page.render("plan_outputs", plan_id=plan_id, plan_name=name, outputs=outputs)


async def output_page(page: PageRequest) -> Response:
    ctx = await page.context()
    output = await read_output(ctx, page.path("output_id"))
    name, versions = await plan_outputs(ctx, output.plan_id)
    cost = min(len(output.content), MAX_SHOWN_LENGTH) // _CHARACTERS_PER_COST
    content = await page.run_costly(cost, lambda: _content(output))
    return await page.render(
        "output",
        output=output,
        plan_name=name,
        versions=[item for item in versions if item.title == output.title][:MAX_VERSIONS],
        **content,
    )


def _content(output: ReadableOutput) -> dict[str, Any]:
    kind = output.media_type.partition(";")[0].strip().lower()
    shown = output.content[:MAX_SHOWN_LENGTH]
    omitted = len(output.content) - len(shown)
    table = None
    if separator := _SEPARATORS.get(kind):
        table = parse_table(shown.rpartition("\n")[0] if omitted else shown, separator)
    html = document_html(shown) if kind in MARKDOWN else None
    return {"html": html, "table": table, "text": shown, "omitted": omitted}


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableView:
    """Table parsed from CSV or a similar format, with a limited number of rows and columns."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]


def parse_table(text: str, separator: str) -> _TableView | None:
    r"""Return the table in a text, or None if the text is not a table.

    >>> parse_table("river,km\nNile,6650\n", ",").rows
    [['Nile', '6650']]
    """
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        rows = [row for row in islice(lines, MAX_ROWS + 2) if any(map(str.strip, row))]
    except csv.Error:
        return None
    if not rows:
        return None
    width = max(map(len, rows))
    padded = ([*row, *[""] * width][: min(width, _MAX_COLUMNS)] for row in rows)
    shown = [
        [t if len(t) <= _MAX_CELL_LENGTH else f"{t[:_MAX_CELL_LENGTH]}…" for t in row]
        for row in padded
    ]
    notes = []
    if len(shown) > MAX_ROWS + 1:
        notes.append(f"Only the first {MAX_ROWS} rows are shown.")
    if width > _MAX_COLUMNS:
        notes.append(f"Only the first {_MAX_COLUMNS} of {width:,} columns are shown.")
    return _TableView(head=shown[0], rows=shown[1 : MAX_ROWS + 1], notes=notes)
