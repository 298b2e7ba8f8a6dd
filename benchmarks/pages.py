"""CPU time to render the page of a plan of 13, 500 and 5,000 steps, without SQL.

The time is measured from the loaded plan to the HTML text: map layout and drawing, timelines,
template. The page size has a limit, which tests check too. The time depends on the machine, so it
has only a target, which is printed next to the measured value.

    PYTHONPATH=tests:tests/support python benchmarks/pages.py [--rounds 9]
"""

import argparse
import gzip
import statistics
import time

from plan_builders import NOON
from plan_details import make_large_plan, make_plan_detail
from waybook.plan.model import Plan
from waybook.transport.http.dashboard.plans.plan_page import plan_content
from waybook.transport.http.html.layout import TEMPLATES

#: Number of steps, target for the milliseconds to render the page, and maximum size of the
#: compressed page in bytes.
TARGETS = ((13, 10, 30_000), (500, 50, 60_000), (5_000, 80, 60_000))


def render_page(plan: Plan) -> str:
    content = plan_content(make_plan_detail(plan))
    request = {"path": f"/plans/{plan.id}", "query": {}, "now": NOON, "thread": None}
    layout = {**request, "person": None, "theme": "", "waiting": 1, "token": "t" * 43}
    return TEMPLATES.get_template("plan.html").render({**layout, **content})


def median_cpu_ms(plan: Plan, rounds: int) -> float:
    """Render the page several times; return the median CPU time in milliseconds."""
    render_page(plan)
    times = []
    for _ in range(rounds):
        started = time.process_time()
        render_page(plan)
        times.append(time.process_time() - started)
    return 1_000 * statistics.median(times)


def main(rounds: int) -> None:
    """Print the results; raise AssertionError if a page is too large."""
    print(f"{'the page of a plan':22}{'CPU ms':>8}{'goal':>6}{'kB':>8}{'packed':>8}{'limit':>7}")
    for steps, target, max_bytes in TARGETS:
        plan = make_large_plan(steps)
        cpu_ms, text = median_cpu_ms(plan, rounds), render_page(plan).encode()
        packed = len(gzip.compress(text, 6))
        sizes = f"{len(text) / 1_000:8.0f}{packed / 1_000:8.1f}{max_bytes / 1_000:7.0f}"
        print(f"{f'{steps:,} steps':22}{cpu_ms:8.1f}{target:6}{sizes}")
        assert packed <= max_bytes, f"{packed} compressed bytes; the limit is {max_bytes}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    main(parser.parse_args().rounds)
