"""How reviews look: the inbox, and one of them opened."""

import json

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from waybook.record.spans import format_age
from waybook.usecases.find_runs import RunSummary
from waybook.usecases.links import review_url
from waybook.usecases.list_reviews import OpenReview

MAX_LINES = 20


def print_empty_inbox(console: Console) -> None:
    """Nothing to do is good news."""
    console.print(Text.assemble(("✓", "green"), " Nothing waits for you."))


def inbox_table(reviews: list[OpenReview]) -> Table:
    """The open reviews, longest waiting first."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("plan")
    table.add_column("step")
    table.add_column("asked", no_wrap=True)
    for number, review in enumerate(reviews, start=1):
        when = Text(format_age(review.requested_at, review.now), style="dim")
        table.add_row(str(number), review.plan_name, step_name(review), when)
    return table


def review_panel(review: OpenReview, width: int, base_url: str) -> Panel:
    """A review with all that is needed to decide it."""
    parts: list[RenderableType] = [Text(review.summary)]
    if review.questions:
        asked = Text("\n".join(f"? {question}" for question in review.questions), style="magenta")
        parts += ["", asked]
    if review.result_summary is not None:
        parts += ["", Text("the result, if you approve", style="dim"), _result(review)]
    said = f"asked by {review.requested_by}, {format_age(review.requested_at, review.now)}"
    parts += ["", Text(f"{said} · try {review.attempt} · plan {review.plan_id}", style="dim")]
    parts += [Text(review_url(review.plan_id, base_url), style="dim")]
    title = Text.assemble(" ", (review.plan_name, "bold"), f" · {step_name(review)} ")
    return Panel(
        Group(*parts), title=title, title_align="left", border_style="magenta", width=width
    )


def awaiting_runs_table(runs: list[RunSummary]) -> Group:
    """The runs that wait for a word, each with the command that says it."""
    lines: list[RenderableType] = []
    for run in runs:
        stage = run.awaiting.slug if run.awaiting else ""
        waits = f" waits for your feedback on {stage}, {format_age(run.updated_at, run.now)}"
        lines.append(Text.assemble(("! ", "bold magenta"), (run.name, "bold"), waits))
        lines.append(Text(f'  waybook feedback {run.id} {stage} "…"', style="dim"))
    return Group(*lines)


def step_name(review: OpenReview) -> str:
    """The step by its number and title."""
    first = review.title or review.instructions.strip().split("\n", 1)[0]
    return f"step {review.step_order}, {first}"


def _result(review: OpenReview) -> Padding:
    result = review.result_summary
    told = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, indent=2)
    lines = told.splitlines()
    left = len(lines) - MAX_LINES
    shown = [*lines[:MAX_LINES], f"… {left} more lines"] if left > 0 else lines
    return Padding(Text("\n".join(shown)), (0, 2))
