"""Cost of claiming and submitting a job of a run, compared with a step of a plan.

Both kinds of cycles (claim and submit) are tool calls in this process, on the same embedded
PostgreSQL. The jobs belong to a stage with many jobs (the wide stage): every job reads a document
from the first stage and writes one document. Each measurement uses new runs. CPU time is the sum of
user and system time, of this process and of the processes of PostgreSQL.

    python benchmarks/job_cycle.py [--cycles 640] [--rounds 3]
"""

import argparse
import asyncio
import resource
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple
from unittest.mock import patch

import uvloop

from limits import Check, finish
from server_cpu import find_postmaster, server_cpu_seconds
from waybook.bootstrap import Application, freeze_gc, start_application
from waybook.cli.demo.environment import temporary_database
from waybook.core.decision_context import Channel
from waybook.settings_reading import read_settings
from waybook.store.driver.connection import DbConnection, Message, Results

WORKERS = 16
STEPS = 10
#: Number of models of a run. Its second stage has a job for each combination of three models.
MODELS = 9
#: CPU time to claim and submit a job, as a multiple of that for a step: maximum, and goal.
MAX_CPU_RATIO = 1.38
CPU_RATIO_GOAL = 1.3
#: Rate of 16 workers on one run as a fraction of their rate on 16 runs: minimum, and goal.
MIN_SHARED_RATIO = 0.6
SHARED_RATIO_GOAL = 0.7
#: Minimum rate of 16 workers on one run, as a multiple of one worker's rate. With two cores, this
#: rate is possible only if Python and PostgreSQL work at the same time.
MIN_WORKERS_RATIO = 2.0

RESULT = "Three sources agree; one is older than the rest. " * 4
INSTRUCTIONS = "Read the three newest sources and note where they disagree. " * 4
DEFINITION: dict[str, object] = {
    "slug": "wide",
    "name": "Wide",
    "stages": [
        {
            "slug": "begin",
            "recipe": {
                "steps": [
                    {
                        "stepKey": "outline",
                        "jobType": "PLAN",
                        "granularityStrategy": "per_model",
                        "inputsRequired": [],
                        "outputs": [{"documentKey": "outline"}],
                    }
                ],
                "edges": [],
            },
        },
        {
            "slug": "work",
            "recipe": {
                "steps": [
                    {
                        "stepKey": "wide",
                        "jobType": "EXECUTE",
                        "granularityStrategy": "pairwise_by_origin",
                        "inputsRequired": [{"stage": "begin", "documentKey": "outline"}],
                        "outputs": [{"documentKey": "wide"}],
                        "prompt": INSTRUCTIONS,
                    }
                ],
                "edges": [],
            },
        },
    ],
}


class Counts(NamedTuple):
    """Resources used so far: CPU seconds, and messages and statements sent to PostgreSQL."""

    python: float
    postgres: float
    messages: int
    statements: int


class Cost(NamedTuple):
    """Cycles (claim and submit) per second; CPU microseconds, messages and statements per cycle."""

    rate: float
    python: float
    postgres: float
    messages: float
    statements: float

    @property
    def cpu(self) -> float:
        return self.python + self.postgres


class Meter:
    """Counter of the resources that this process and the database server use."""

    def __init__(self, data_dir: Path) -> None:
        self._postmaster = find_postmaster(data_dir)
        self._messages = self._statements = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """During the block, count the messages to the database and their statements."""
        original = DbConnection.send

        async def send(line: DbConnection, opening: Message, statements: Message) -> Results:
            self._messages += 1
            self._statements += len(opening) + len(statements)
            return await original(line, opening, statements)

        with patch.object(DbConnection, "send", send):
            yield

    def read(self) -> Counts:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        python = usage.ru_utime + usage.ru_stime
        return Counts(
            python, server_cpu_seconds(self._postmaster), self._messages, self._statements
        )


async def call(system: Application, tool: str, **arguments: object) -> dict[str, object]:
    answer = await system.dispatcher.dispatch(system.caller(Channel.MCP), tool, arguments)
    assert not answer.is_error, answer.body
    return answer.body


async def measure(meter: Meter, workers: Sequence[Awaitable[None]], cycles: int) -> Cost:
    """Let the workers work; return the cost of one claim and submit."""
    before, start = meter.read(), time.perf_counter()
    await asyncio.gather(*workers)
    seconds, after = time.perf_counter() - start, meter.read()
    python, postgres, messages, statements = (
        (new - old) / cycles for new, old in zip(after, before, strict=True)
    )
    return Cost(cycles / seconds, python * 1e6, postgres * 1e6, messages, statements)


# Functions that measure steps of plans


async def create_plans(system: Application, count: int) -> list[object]:
    """Create plans of ten steps; return their ids."""
    steps = [{"stepType": "search", "instructions": INSTRUCTIONS}] * STEPS
    named = {"name": "b", "researchQuestion": "How fast?", "steps": steps}
    return [(await call(system, "create_research_plan", **named))["planId"] for _ in range(count)]


async def work_on_plans(system: Application, session: str, plans: Sequence[object]) -> None:
    """Claim and submit every step of these plans."""
    for number, plan in enumerate(plans):
        for step in range(STEPS):
            common = {"sessionId": session, "idempotencyKey": f"{session}-{number}-{step}"}
            ready = await call(system, "get_next_step", planId=plan, **common)
            held = {"stepId": ready["stepId"], "attempt": ready["attempt"]}
            await call(system, "submit_step_result", **held, resultSummary=RESULT, **common)


async def steps_round(system: Application, meter: Meter, turn: int, cycles: int) -> Cost:
    """Return the cost of claiming and submitting one step, with one worker."""
    plans = await create_plans(system, max(1, cycles // STEPS))
    return await measure(meter, [work_on_plans(system, f"p{turn}", plans)], len(plans) * STEPS)


# Functions that measure jobs of runs


async def begin_run(system: Application, count: int) -> object:
    """Start a run with this many models and complete its first stage; return its id."""
    models = [f"model-{number}" for number in range(count)]
    named = {"dagSlug": "wide", "name": "b", "input": "How fast?", "models": models}
    run = (await call(system, "start_run", **named))["runId"]
    await work_on_run(system, "begin", run, count)
    return run


async def open_stage(system: Application, run: object) -> dict[str, object]:
    """Give feedback on the first stage of a run, which opens its second stage with many jobs."""
    named = {"runId": run, "stageSlug": "begin", "feedback": "Continue."}
    return await call(system, "submit_stage_feedback", **named)


async def start_run(system: Application) -> object:
    """Start a run and open its second stage, which has many jobs; return the id of the run."""
    run = await begin_run(system, MODELS)
    await open_stage(system, run)
    return run


async def work_on_run(system: Application, session: str, run: object, count: int) -> None:
    for number in range(count):
        common = {"sessionId": session, "idempotencyKey": f"{run}-{session}-{number}"}
        ready = await call(system, "get_next_job", runId=run, **common)
        assert ready["status"] == "job_ready", ready
        held = {"jobId": ready["jobId"], "attempt": ready["attempt"]}
        await call(system, "submit_job_result", **held, documents=[{"content": RESULT}], **common)


async def jobs_round(
    system: Application, meter: Meter, workers: int, runs: int, cycles: int
) -> Cost:
    """Return the cost of claiming and submitting a job, with the workers spread over new runs."""
    started = [await start_run(system) for _ in range(runs)]
    each = cycles // workers
    at_work = [work_on_run(system, f"w{n}", started[n % runs], each) for n in range(workers)]
    return await measure(meter, at_work, each * workers)


async def main(cycles: int, rounds: int) -> None:
    """Measure steps, and jobs with three kinds of load, in turn; do not count the first round."""
    results: dict[str, list[Cost]] = {}
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder, "pool_size": WORKERS}, {}).settings
        async with start_application(settings, sweeping=False) as system:
            meter = Meter(folder)
            await call(system, "add_dag", definition=DEFINITION)
            freeze_gc()
            with meter.counting():
                for turn in range(rounds + 1):
                    measured = {
                        "step, 1 worker": await steps_round(system, meter, turn, cycles),
                        "job, 1 worker": await jobs_round(system, meter, 1, 1, cycles),
                        "job, 16 workers, 1 run": await jobs_round(
                            system, meter, WORKERS, 1, cycles
                        ),
                        "job, 16 workers, 16 runs": await jobs_round(
                            system, meter, WORKERS, WORKERS, cycles
                        ),
                    }
                    for name, cost in measured.items():
                        results.setdefault(name, []).append(cost)
    report({name: costs[1:] for name, costs in results.items()})


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(*(median(values) for values in zip(*costs, strict=True)))


def report(results: dict[str, list[Cost]]) -> None:
    """Print the medians; exit with code 1 if a limit is missed."""
    costs = {name: _median(rounds) for name, rounds in results.items()}
    columns = f"{'cycles/s':>10}{'Python µs':>11}{'PostgreSQL µs':>15}{'sum µs':>9}"
    print(f"{'cycle':26}{columns}{'messages':>10}{'statements':>12}")
    for name, (speed, python, postgres, messages, statements) in costs.items():
        cpu = f"{python:11.0f}{postgres:15.0f}{python + postgres:9.0f}"
        print(f"{name:26}{speed:10.0f}{cpu}{messages:10.1f}{statements:12.1f}")
    turns = list(zip(*results.values(), strict=True))
    cpu_ratio = Check(
        name="CPU, job : step",
        rounds=[alone.cpu / step.cpu for step, alone, _, _ in turns],
        direction="<=",
        limit=MAX_CPU_RATIO,
        goal=CPU_RATIO_GOAL,
    )
    shared_ratio = Check(
        name="rate, 1 run : 16 runs",
        rounds=[shared.rate / apart.rate for _, _, shared, apart in turns],
        limit=MIN_SHARED_RATIO,
        goal=SHARED_RATIO_GOAL,
    )
    workers_ratio = Check(
        name="rate, 16 workers : 1",
        rounds=[shared.rate / alone.rate for _, alone, shared, _ in turns],
        limit=MIN_WORKERS_RATIO,
    )
    rows = {name: cost._asdict() for name, cost in costs.items()}
    finish("job_cycle", [cpu_ratio, shared_ratio, workers_ratio], rows=rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=640)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    uvloop.run(main(arguments.cycles, arguments.rounds))
