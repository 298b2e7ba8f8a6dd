"""Write docs/evidence/performance.md from the benchmark results in build/bench.

    python -m tools.performance

`make bench` writes the results. A table without a result file stays unchanged. `python -m
tools.published_figures` then copies the most important figures to docs/performance.md.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from tools.pictures.growth import draw_growth

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "build" / "bench"
PAGE: Final = ROOT / "docs" / "evidence" / "performance.md"
PICTURE: Final = ROOT / "docs" / "pictures" / "growth.svg"
PICTURE_LINK: Final = "![Duration of reads by the number of plans](../pictures/growth.svg)"

#: Maximum load average of a machine without other programs, including the load that the previous
#: benchmark caused.
MAX_IDLE_LOAD: Final = 2.5
BUSY: Final = (
    "Other programs used the machine at the same time, so the figures are only indicative."
)
UNKNOWN_LOAD: Final = (
    "The load of the machine was not recorded, so the figures are only indicative."
)

#: JSON of a result file or of a part of it; the type checker does not check accesses to it.
Body: TypeAlias = Mapping[str, Any]


def begin_mark(name: str) -> str:
    """Return the comment in Markdown before a generated table."""
    return f"<!-- {name}: written by `python -m tools.performance` -->"


def end_mark(name: str) -> str:
    """Return the comment in Markdown after a generated table."""
    return f"<!-- end of {name} -->"


# Functions for tables

#: Columns with texts; all other columns have numbers.
TEXT_COLUMNS: Final = frozenset(
    {"benchmark", "cycle", "figure", "lacks", "read, ms", "server", "system", "verdict", "version"}
)


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, text: int = 0) -> str:
    """Return a Markdown table in which columns of numbers are aligned to the right.

    The first `text` columns and the `TEXT_COLUMNS` have texts, and are aligned to the left.
    """
    rules = [
        "---" if name in TEXT_COLUMNS or number < text else "---:"
        for number, name in enumerate(header)
    ]
    lines = [header, rules, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def describe(result: Body) -> str:
    """Return sentences with the date, the commit and the machine of a result."""
    machine = result["machine"]
    version = result.get("postgresql")
    postgres = f", PostgreSQL {version}" if version else ""
    measured = (
        f"Measured on {result['measured']} at commit {result['commit']}, on {machine['processor']} "
        f"with {machine['cores']} cores, {machine['system']}, Python {machine['python']}{postgres}."
    )
    load = machine.get("loadBefore")
    if load is None:
        return f"{measured}\n{UNKNOWN_LOAD}"
    return f"{measured}\nThe load average before the benchmark was {load}.{_warn(load)}"


def _warn(load: float) -> str:
    return f"\n{BUSY}" if load > MAX_IDLE_LOAD else ""


def format_checks(checks: Sequence[Body]) -> str:
    """Return the table of the checks of a benchmark, with limits and goals."""
    header = ["figure", "value", "noise", "limit", "goal", "verdict"]
    return format_table(header, [[check["name"], *check_cells(check)] for check in checks])


def check_cells(check: Body) -> list[str]:
    sign = {">=": "≥", "<=": "≤"}[check["direction"]]
    bounds = [
        "" if check[bound] is None else f"{sign} {check[bound]:g}" for bound in ("limit", "goal")
    ]
    return [f"{check['value']:.2f}", f"± {check['noise']:.2f}", *bounds, check["verdict"]]


def peers_table(result: Body) -> str:
    """Return the tables in which Waybook is compared with other durable engines."""
    rates = format_table(
        ["system", "version", "cycles/s", "Python µs", "PostgreSQL µs", "CPU, Waybook : system"],
        [
            [
                row["label"],
                row["version"],
                f"{row['rate']:,.0f}",
                f"{row['python']:,.0f}",
                f"{row['postgres']:,.0f}",
                f"{row['cpuRatio']:.2f}",
            ]
            for row in result["rows"]
        ],
    )
    return f"{rates}\n\n{format_checks(result['checks'])}"


def lacks_table(result: Body) -> str:
    """Return the table of guarantees that other engines did not give when they were measured."""
    rows = [[row["label"], row["lacks"]] for row in result["rows"] if row["lacks"]]
    return format_table(["system", "lacks"], rows)


def mcp_table(result: Body) -> str:
    """Return the tables of tool calls over MCP and HTTP."""
    rows = [
        [name, f"{cpu:.2f}", f"{result['rates'][name]:,.0f}"]
        for name, cpu in result["cpuMs"].items()
    ]
    costs = format_table(["server", "CPU ms per cycle", "cycles/s"], rows)
    return f"{costs}\n\n{format_checks(result['checks'])}"


def workers_table(result: Body) -> str:
    """Return the tables of steps and reads per second, with one and with two server processes."""
    header = ["server", "rate/s", "all servers", "busiest process", "PostgreSQL", "callers"]
    keys = ("python", "busiest", "postgres", "callers")
    rows = [
        [
            name,
            f"{row['rate']:,.0f}",
            *(f"{row[key]:.2f} ({_share(result, row, key):.0f} %)" for key in keys),
        ]
        for name, row in result["rows"].items()
    ]
    return f"{format_table(header, rows)}\n\n{format_checks(result['checks'])}"


def _share(result: Body, row: Body, key: str) -> float:
    """Return CPU time as a percentage of that of all cores."""
    return float(row[key]) * float(row["rate"]) / 10 / int(result["cores"])


def jobs_table(result: Body) -> str:
    rows = [
        [
            name,
            *(f"{row[key]:,.0f}" for key in ("rate", "python", "postgres")),
            *(f"{row[key]:.1f}" for key in ("messages", "statements")),
        ]
        for name, row in result["rows"].items()
    ]
    header = ["cycle", "cycles/s", "Python µs", "PostgreSQL µs", "messages", "statements"]
    return f"{format_table(header, rows)}\n\n{format_checks(result['checks'])}"


def search_table(result: Body) -> str:
    """Return the tables of search times in an org with many passages."""
    rows = [
        [
            name,
            *(f"{row[key]:.1f}" for key in ("p50", "p95", "cpu")),
            f"{row['recall']:.3f}",
            f"{row['memory'] / 1e6:.0f}",
        ]
        for name, row in result["rows"].items()
    ]
    title = f"search, {result['passages']:,} passages"
    header = [title, "p50 ms", "p95 ms", "CPU ms", "recall", "memory MB"]
    return f"{format_table(header, rows, text=1)}\n\n{format_checks(result['checks'])}"


def quality_table(result: Body) -> str:
    """Return the tables of search quality on public test sets."""
    sets = [*result["questions"]]
    header = ["search", *(f"{name}, {key}" for name in sets for key in ("nDCG@10", "recall@10"))]
    rows = [
        [method, *(f"{row[name][key]:.3f}" for name in sets for key in ("ndcg", "recall"))]
        for method, row in result["rows"].items()
    ]
    return f"{format_table(header, rows, text=1)}\n\n{format_checks(result['checks'])}"


def summary_table(result: Body) -> str:
    """Return the table with the verdicts of all benchmarks."""
    rows = [
        [f"`{run['name']}`", run["verdict"], f"{run['seconds']:.0f}"] for run in result["outcomes"]
    ]
    return format_table(["benchmark", "verdict", "seconds"], rows)


def lists_table(results: Sequence[Body]) -> str:
    """Return the table of the milliseconds of each read, by number of plans."""
    names = [name for name in results[0]["milliseconds"] if in_all(name, results)]
    rows = [[name, *(f"{size['milliseconds'][name]:.2f}" for size in results)] for name in names]
    return format_table(["read, ms", *(f"{size['plans']:,} plans" for size in results)], rows)


def in_all(name: str, results: Sequence[Body]) -> bool:
    """Return whether each of the results contains the read `name`."""
    return all(name in result["milliseconds"] for result in results)


#: For each generated part of the page, the name of the result file, and the function for the
#: tables.
TABLES: Final[Mapping[str, tuple[str, Callable[[Body], str]]]] = {
    "peers": ("peers", peers_table),
    "missing guarantees": ("peers", lacks_table),
    "calls over HTTP": ("mcp_http", mcp_table),
    "workers": ("workers", workers_table),
    "jobs": ("job_cycle", jobs_table),
    "quality of search": ("search_quality", quality_table),
    "search": ("search_scale", search_table),
    "search among a million": ("search_scale-1000000", search_table),
    "summary": ("summary", summary_table),
}
#: Generated parts without date and machine, because the part above them has the same date and
#: machine.
UNDATED: Final = frozenset({"missing guarantees"})


# Functions for the page


def replace_part(page: str, name: str, body: str) -> str:
    """Return the page with another text for one generated part."""
    begin, end = begin_mark(name), end_mark(name)
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(page):
        raise LookupError(f"{PAGE.name} has no part {name!r}")
    return pattern.sub(lambda _: f"{begin}\n\n{body}\n\n{end}", page)


def read_result(name: str) -> Body | None:
    """Return the result of a benchmark, or None if there is no result file."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def read_lists() -> Sequence[Body]:
    """Return the results of the benchmark of reads, with the lowest number of plans first."""
    results = [
        json.loads(file.read_text(encoding="utf-8")) for file in RESULTS.glob("lists-*.json")
    ]
    return sorted(results, key=lambda result: int(result["plans"]))


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    for name, (benchmark, make_table) in TABLES.items():
        result = read_result(benchmark)
        if result is None:
            sys.stdout.write(f"{name}: build/bench/{benchmark}.json does not exist; kept\n")
            continue
        table = make_table(result)
        dated = table if name in UNDATED else f"{describe(result)}\n\n{table}"
        page = replace_part(page, name, dated)
    if lists := read_lists():
        table = f"{describe(lists[-1])}\n\n{PICTURE_LINK}\n\n{lists_table(lists)}"
        page = replace_part(page, "reads", table)
        PICTURE.write_text(draw_growth(lists), encoding="utf-8")
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
