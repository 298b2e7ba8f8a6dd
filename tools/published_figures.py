"""Copy figures from docs/evidence to docs/performance.md and docs/reliability.md.

    python -m tools.published_figures

The two pages are short, for readers who want to know whether Waybook is fast and reliable enough.
Every figure is copied from a measurement page, so that it has only one source.
"""

import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PART: Final = re.compile(
    r"(<!-- figures: written by `python -m tools.published_figures` -->\n).*?(<!-- end -->)",
    re.DOTALL,
)
#: Verdicts about figures that miss a goal or limit; such a figure needs a remark with the reason.
MISSED: Final = ("goal not reached", "limit missed", "FAILED")


class Figure(NamedTuple):
    """Row of a published table: a question, and the figure that answers it."""

    question: str
    row: str
    column: str
    #: Text of the answer, with `{}` in place of the figure.
    answer: str = "{}"
    remark: str = ""


CYCLES: Final = "cycles/s"
PERFORMANCE: Final = (
    Figure(
        "Steps per second of one process on two cores, with 16 agents, including PostgreSQL",
        "Waybook with takeNext",
        CYCLES,
    ),
    Figure(
        "Compared with pgqueuer, one job at a time",
        "rate, Waybook with takeNext : pgqueuer, one job at a time",
        "value",
        "{} times as many",
    ),
    Figure(
        "Compared with pgqueuer in batches of ten",
        "rate, Waybook with takeNext : pgqueuer, batches of ten",
        "value",
        "{} times as many",
        "pgqueuer reports ten jobs in one transaction; Waybook makes every step durable by itself",
    ),
    Figure(
        "Compared with Absurd, a task for each step",
        "rate, Waybook with takeNext : Absurd, task for each step",
        "value",
        "{} times as many",
    ),
    Figure(
        "Compared with LangGraph and its PostgreSQL checkpointer",
        "rate, Waybook with takeNext : LangGraph, PostgreSQL checkpointer",
        "value",
        "{} times as many",
    ),
    Figure("Compared with DBOS", "rate, Waybook with takeNext : DBOS", "value", "{} times as many"),
    Figure(
        "Compared with one SQL function that writes the same rows",
        "rate, Waybook with takeNext : one SQL function, Waybook's driver",
        "value",
        "{} times as many",
        "goal not reached: Waybook also checks arguments, rules and conditions, in Python",
    ),
    Figure(
        "CPU time of an MCP server with fixed replies, compared with a step over HTTP in Waybook",
        "library : Waybook",
        "value",
        "{} times as much",
    ),
    Figure(
        "Requests per second of two workers, compared with one, if PostgreSQL is not the limit",
        "rate of report of a snapshot, 2 workers : 1 worker",
        "value",
        "{} times as many",
    ),
    Figure(
        "Steps per second of two workers, compared with one, on two cores in total",
        "rate, 2 workers : 1 worker",
        "value",
        "{} times as many",
        "goal not reached: the workers, PostgreSQL and the agents shared the two cores",
    ),
    Figure(
        "Time to read the front page in an org with 1,000,000 plans",
        "front page",
        "1,000,000 plans",
        "{} ms",
    ),
    Figure(
        "Time to list open plans in the same org", "list_active_plans", "1,000,000 plans", "{} ms"
    ),
    Figure(
        "Quality of search (nDCG@10) on Cranfield, compared with the better of two BM25 rankings",
        "Cranfield, nDCG@10, fused : BM25, k1 1.5, b 0.75",
        "value",
        "{} times as good",
    ),
    Figure(
        "Quality of search (nDCG@10) on LoCoMo, compared with the better of two BM25 rankings",
        "LoCoMo, nDCG@10, fused : BM25, k1 0.9, b 0.4",
        "value",
        "{} times as good",
    ),
    Figure(
        "Share of the nearest passages that semantic search finds among 100,000",
        "recall@10",
        "value",
    ),
    Figure(
        "Time of a search, compared with pgvector",
        "ratio to pgvector",
        "value",
        "{} times as long",
        "goal not reached: pgvector is faster, but found fewer than half of the nearest passages",
    ),
)

LONG: Final = "`make harness NAME=faults-long`"
RELIABILITY: Final = (
    Figure("Calls that were acknowledged under faults", LONG, "acknowledged"),
    Figure("Times that a server was killed with `kill -9`", LONG, "server kills"),
    Figure("Times that PostgreSQL was killed with `kill -9`", LONG, "database kills"),
    Figure(
        "Violations of the checked properties, such as a lost or doubled result", LONG, "violations"
    ),
    Figure(
        "Calls without an answer whose effect the agent did not know",
        LONG,
        "unknown",
        remark="the agent repeats such a call with its idempotency key, and it counts once",
    ),
    Figure(
        "Longest time until calls succeed again after PostgreSQL was killed",
        "10 database kills | direct",
        "max",
    ),
    Figure(
        "The same behind pgbouncer",
        "10 database kills | pooled",
        "max",
        remark="pgbouncer itself has to reconnect",
    ),
    Figure(
        "Time from `SIGTERM` to the end of a server",
        "time from SIGTERM to the end of the server process | both",
        "max",
    ),
)
#: Figures of each published page. They come from the page of the same name in docs/evidence.
PAGES: Final = {"performance.md": PERFORMANCE, "reliability.md": RELIABILITY}


def read_cell(page: str, row: str, column: str) -> tuple[str, str]:
    """Return, of the first table row that begins with `row`, the cell in `column` and the last."""
    header: list[str] = []
    for line in page.splitlines():
        if not line.startswith("|"):
            header = []
        elif not header:
            header = split_row(line)
        elif line.startswith(f"| {row} |") and column in header:
            cells = split_row(line)
            return cells[header.index(column)], cells[-1]
    raise LookupError(f"no table has a row {row!r} and a column {column!r}")


def split_row(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def render_table(figures: tuple[Figure, ...], page: str) -> str:
    """Return the table with the measured figures.

    Raises:
        ValueError: a figure misses its goal or limit, and its remark gives no reason.
    """
    lines = ["| question | measured | remark |", "| --- | ---: | --- |"]
    for figure in figures:
        value, verdict = read_cell(page, figure.row, figure.column)
        if verdict in MISSED and not figure.remark:
            raise ValueError(f"{figure.question}: {verdict}, but no reason is given")
        lines.append(f"| {figure.question} | {figure.answer.format(value)} | {figure.remark} |")
    return "\n".join(lines)


def render(name: str) -> str:
    """Return a published page with the current figures."""
    page = (DOCS / name).read_text(encoding="utf-8")
    table = render_table(PAGES[name], (DOCS / "evidence" / name).read_text(encoding="utf-8"))
    return PART.sub(lambda part: f"{part[1]}\n{table}\n\n{part[2]}", page)


def main() -> int:
    for name in PAGES:
        (DOCS / name).write_text(render(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
