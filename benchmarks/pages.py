"""CPU time to render the page of a plan of 13, 500 and 5,000 steps, without SQL.

Measured from the loaded plan to the response text: map layout and drawing, timelines, template.
Sizes are limited here and in tests; times are targets, printed next to the measured values, because
they depend on the machine.

    PYTHONPATH=tests:tests/support python benchmarks/pages.py [--rounds 9]
"""

import argparse
import gzip
import statistics
import time

from plan_builders import NOON
from plan_details import make_large_plan, make_plan_detail
from waybook.plan.model import Plan
from waybook.transport.http.dashboard.plan_view import plan_view
from waybook.transport.http.html.layout import TEMPLATES

#: Steps, target milliseconds, and maximum compressed bytes.
AIMS = ((13, 10, 30_000), (500, 50, 60_000), (5_000, 80, 60_000))


def made(plan: Plan) -> str:
    """Render the page."""
    sheet = make_plan_detail(plan)
    shown = {"view": plan_view(sheet), "plan": plan, "refusal": None, "now": NOON}
    asked = {"path": f"/plans/{plan.id}", "query": {}}
    framed = {**asked, "person": None, "waiting": 1, "token": "t" * 43}
    return TEMPLATES.get_template("plan.html").render({**framed, **shown})


def milliseconds(plan: Plan, rounds: int) -> float:
    """Return the median CPU time after a warm-up."""
    made(plan)
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        made(plan)
        found.append(time.process_time() - begun)
    return 1_000 * statistics.median(found)


def main(rounds: int) -> None:
    """Print the results, and fail beyond the limits."""
    print(f"{'the page of a plan':22}{'CPU ms':>8}{'aim':>6}{'kB':>8}{'packed':>8}{'limit':>7}")
    for steps, aim, most in AIMS:
        plan = make_large_plan(steps)
        took, text = milliseconds(plan, rounds), made(plan).encode()
        packed = len(gzip.compress(text, 6))
        sizes = f"{len(text) / 1_000:8.0f}{packed / 1_000:8.1f}{most / 1_000:7.0f}"
        print(f"{f'{steps:,} steps':22}{took:8.1f}{aim:6}{sizes}")
        assert packed <= most, f"{packed} bytes, at most {most} are promised"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    main(parser.parse_args().rounds)
