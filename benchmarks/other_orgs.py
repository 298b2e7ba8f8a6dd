"""Effect of one org's most expensive calls on another org's latency.

The server runs in its own process in server mode with default limits. One org completes the steps
of plans; a second org, in a separate process, repeats an expensive call on several connections.
Each round measures the latency without an attack (the baseline), and then during every attack. The
ratio of the 99th percentiles is compared with the limit. All traffic is loopback; the number of
calls and the time are limited.

    python benchmarks/other_orgs.py [--calls 200] [--rounds 2] [--only drawing]
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import string
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from statistics import median, quantiles
from typing import Any

from flood import (
    FLOODING_ORG,
    LIMIT,
    MEASURED_ORG,
    Caller,
    call,
    cpu_seconds,
    create_token,
    measure_latencies,
)
from server_process import serving
from waybook.application import database_server
from waybook.cli.demo.environment import temporary_database
from waybook.settings_reading import read_settings

MAX_SECONDS = 120
#: Line that the process of an attack prints when the server has answered its first request.
STARTED = "started"
STEP = {"stepType": "search", "instructions": "Look it up."}
#: Condition that exceeds the limit on evaluation cost if the result is a list of 100 numbers.
EXPENSIVE = "result.all(x, result.all(y, result.all(z, x + y + z >= 0)))"
RESULT_BYTES = 250_000
RESULTS = 36


# Functions that prepare an attack


async def dense_plan(caller: Caller) -> dict[str, Any]:
    """Create a plan of 200 steps, each of which depends on all steps before it."""
    steps = [{**STEP, "dependsOn": [*range(1, order)]} for order in range(1, 201)]
    plan = await call(caller, "create_research_plan", name="D", researchQuestion="?", steps=steps)
    return {"planId": plan["planId"]}


async def large_plan(caller: Caller) -> dict[str, Any]:
    """Create a plan whose results are about nine megabytes."""
    steps = [STEP] * RESULTS
    plan = await call(caller, "create_research_plan", name="L", researchQuestion="?", steps=steps)
    for _ in steps:
        step = await call(caller, "get_next_step", planId=plan["planId"])
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        result = "lorem " * (RESULT_BYTES // 6)
        await call(caller, "submit_step_result", **held, resultSummary=result)
    return {"planId": plan["planId"]}


async def nothing(_: Caller) -> dict[str, Any]:
    """Return no arguments, for an attack that needs no preparation."""
    return {}


# Functions that make one request of an attack


async def ping(caller: Caller, _: int) -> str:
    """Call a cheap tool, so that expensive calls can be compared with cheap ones."""
    return (await caller.call("ping"))[0]


async def draw(caller: Caller, number: int, planId: str) -> str:  # noqa: N803 - as the wire has it
    """Draw the plan with many dependencies, with a width for which no drawing is in the cache."""
    width = 200 + number % 7_800
    return (await caller.call("draw_map", planId=planId, width=width, detail=True))[0]


async def submit(caller: Caller, _: int) -> str:
    """Complete the step of a new plan with fifty conditions that all exceed the cost limit."""
    condition = {"afterStepOrder": 1, "conditionExpression": EXPENSIVE, "ifTrueAction": "continue"}
    arguments = {"name": "C", "researchQuestion": "?", "steps": [STEP]}
    code, plan = await caller.call(
        "create_research_plan", **arguments, branchingConditions=[condition] * 50
    )
    if code != "ok":
        return code
    code, step = await caller.call("get_next_step", planId=plan["planId"])
    if code != "ok":
        return code
    held = {"stepId": step["stepId"], "attempt": step["attempt"]}
    return (await caller.call("submit_step_result", **held, resultSummary=[*range(100)]))[0]


async def read(caller: Caller, _: int, planId: str) -> str:  # noqa: N803 - as the wire has it
    """Read all results of the large plan."""
    return (await caller.call("get_plan_status", planId=planId, detail=True))[0]


async def guess(caller: Caller, _: int) -> str:
    """Send a request with a random token."""
    token = "wb_" + "".join(random.choices(string.ascii_letters, k=40))  # noqa: S311 - no secret
    return await caller.list_tools_as(token)


Prepare = Callable[[Caller], Awaitable[dict[str, Any]]]
#: For each attack, the function that prepares it, the function for one request, and the number of
#: connections.
ATTACKS: dict[str, tuple[Prepare, Callable[..., Awaitable[str]], int]] = {
    "pings": (nothing, ping, 4),
    "drawing": (dense_plan, draw, 4),
    "conditions": (nothing, submit, 4),
    "results": (large_plan, read, 4),
    "tokens": (nothing, guess, 40),
}


async def attack(name: str, address: str, token: str, prepared: dict[str, Any]) -> None:
    """Repeat an attack until stdin is closed or time is up; print the number of answers by code."""
    _, act, connections = ATTACKS[name]
    codes: Counter[str] = Counter()
    numbers = itertools.count()

    async def call_repeatedly() -> None:
        async with Caller(address, token) as caller:
            while True:
                codes[await act(caller, next(numbers), **prepared)] += 1
                if codes.total() == 1:
                    print(STARTED, flush=True)

    tasks = [asyncio.create_task(call_repeatedly()) for _ in range(connections)]
    await asyncio.wait(
        [asyncio.create_task(asyncio.to_thread(sys.stdin.read)), *tasks],
        timeout=MAX_SECONDS,
        return_when=asyncio.FIRST_COMPLETED,
    )
    for task in tasks:
        if task.done() and task.exception():
            codes[repr(task.exception())] += 1
        task.cancel()
    print(json.dumps(codes))


@asynccontextmanager
async def run_attack(
    name: str, address: str, token: str, prepared: dict[str, Any]
) -> AsyncIterator[Counter[str]]:
    """Run an attack in its own process during the block; yield how many answers had each code.

    The counts are empty until the block ends.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--attack", name, "--address", address),
        stdin=PIPE,
        stdout=PIPE,
        env={**os.environ, "ATTACK_TOKEN": token, "ATTACK_PREPARED": json.dumps(prepared)},
    )
    codes: Counter[str] = Counter()
    try:
        assert process.stdout
        line = await process.stdout.readline()
        assert line.decode().strip() == STARTED, line
        yield codes
    finally:
        output, _ = await process.communicate(b"")
        codes.update(json.loads(output or b"{}"))


async def main(calls: int, rounds: int, only: str | None) -> None:
    """In each round, measure the baseline and every attack, and compare them."""
    names = [only] if only else list(ATTACKS)
    alone: dict[str, list[float]] = {name: [] for name in names}
    during: dict[str, list[float]] = {name: [] for name in names}
    codes: dict[str, Counter[str]] = {name: Counter() for name in names}
    used = dict.fromkeys(names, 0.0)
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder}, {}).settings
        async with database_server(settings):  # All server processes use the same database.
            tokens = {org: await create_token(folder, org) for org in (MEASURED_ORG, FLOODING_ORG)}
            async with serving(folder, "--auth", "required") as (address, process):
                async with Caller(address, tokens[FLOODING_ORG]) as caller:
                    prepared = {name: await ATTACKS[name][0](caller) for name in names}
                await measure_latencies(address, tokens[MEASURED_ORG], 40)  # warm-up
                for _, name in itertools.product(range(rounds), names):
                    alone[name] += await measure_latencies(address, tokens[MEASURED_ORG], calls)
                    async with run_attack(
                        name, address, tokens[FLOODING_ORG], prepared[name]
                    ) as answers:
                        before = cpu_seconds(process)
                        during[name] += await measure_latencies(
                            address, tokens[MEASURED_ORG], calls
                        )
                        used[name] += cpu_seconds(process) - before
                    codes[name] += answers
    report(alone, during, codes, used)


def report(
    alone: dict[str, list[float]],
    during: dict[str, list[float]],
    codes: dict[str, Counter[str]],
    used: dict[str, float],
) -> None:
    """Print the latencies and their ratios; raise AssertionError if a ratio exceeds the limit."""
    print(f"{'latency in ms':20}{'p50':>8}{'p99':>8}{'max':>8}{'p99 ratio':>11}")
    ratios = {}
    for name in alone:
        p99 = {
            phase: quantiles(latencies[name], n=100)[-1]
            for phase, latencies in (("alone", alone), ("during", during))
        }
        ratios[name] = p99["during"] / p99["alone"]
        for phase, latencies in (("alone", alone), ("during", during)):
            label = name if phase == "during" else "  alone"
            ratio = f"{ratios[name]:11.2f}" if phase == "during" else ""
            values = latencies[name]
            print(f"{label:20}{median(values):8.1f}{p99[phase]:8.1f}{max(values):8.1f}{ratio}")
        print(f"    answers {dict(codes[name])}; the server used {used[name]:.1f} s of CPU")
    print(f"limit {LIMIT}")
    exceeded = {name: round(ratio, 2) for name, ratio in ratios.items() if ratio > LIMIT}
    assert not exceeded, f"p99 is more than {LIMIT} times the baseline: {exceeded}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=ATTACKS)
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.attack:
        token, prepared = os.environ["ATTACK_TOKEN"], json.loads(os.environ["ATTACK_PREPARED"])
        asyncio.run(attack(arguments.attack, arguments.address, token, prepared))
    else:
        asyncio.run(main(arguments.calls, arguments.rounds, arguments.only))
