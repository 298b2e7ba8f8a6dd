"""Effect of one org's most expensive calls on another org's latency.

The server is its own process in server mode with its default limits. One org works through plans; a
second one, in a separate process, repeats the same expensive call on several connections. Every
attack is measured against a baseline taken in the same round, and the ratio of the 99th percentiles
is compared with the promised limit. All traffic is loopback, bounded in calls and in time.

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

from flood import LIMIT, OURS, THEIRS, Caller, a_token, cpu_seconds, serving, told, waits
from waybook.bootstrap import database_server
from waybook.cli.demo.environment import temporary_database
from waybook.settings_reading import read_settings

LONGEST_SECONDS = 120
BEGUN = "begun"
STEP = {"stepType": "search", "instructions": "Look it up."}
#: Uses the whole evaluation budget on a list of a hundred numbers.
EXPENSIVE = "result.all(x, result.all(y, result.all(z, x + y + z >= 0)))"
RESULT_BYTES = 250_000
RESULTS = 36


# Preparation, as the attacking org


async def dense_plan(caller: Caller) -> dict[str, Any]:
    """Create a plan of 200 steps, each of which depends on all before it."""
    steps = [{**STEP, "dependsOn": [*range(1, order)]} for order in range(1, 201)]
    plan = await told(caller, "create_research_plan", name="D", researchQuestion="?", steps=steps)
    return {"planId": plan["planId"]}


async def large_plan(caller: Caller) -> dict[str, Any]:
    """Create a plan whose results are about nine megabytes."""
    steps = [STEP] * RESULTS
    plan = await told(caller, "create_research_plan", name="L", researchQuestion="?", steps=steps)
    for _ in steps:
        step = await told(caller, "get_next_step", planId=plan["planId"])
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        result = "lorem " * (RESULT_BYTES // 6)
        await told(caller, "submit_step_result", **held, resultSummary=result)
    return {"planId": plan["planId"]}


async def nothing(_: Caller) -> dict[str, Any]:
    """Prepare nothing."""
    return {}


# Attacks: each makes one expensive request


async def ping(caller: Caller, _: int) -> str:
    """Call a cheap tool, to measure the cost of any traffic on this machine."""
    return (await caller.call("ping"))[0]


async def draw(caller: Caller, number: int, planId: str) -> str:  # noqa: N803 - as the wire has it
    """Draw the dense plan at a width that was not drawn before."""
    width = 200 + number % 7_800
    return (await caller.call("draw_map", planId=planId, width=width, detail=True))[0]


async def submit(caller: Caller, _: int) -> str:
    """Complete a step with fifty conditions, each of which would use the whole budget."""
    condition = {"afterStepOrder": 1, "conditionExpression": EXPENSIVE, "ifTrueAction": "continue"}
    asked = {"name": "C", "researchQuestion": "?", "steps": [STEP]}
    code, plan = await caller.call(
        "create_research_plan", **asked, branchingConditions=[condition] * 50
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
    """Send a random token."""
    token = "wb_" + "".join(random.choices(string.ascii_letters, k=40))  # noqa: S311 - no secret
    return await caller.knock(token)


Prepare = Callable[[Caller], Awaitable[dict[str, Any]]]
#: Preparation, request and number of connections of each attack.
ATTACKS: dict[str, tuple[Prepare, Callable[..., Awaitable[str]], int]] = {
    "pings": (nothing, ping, 4),
    "drawing": (dense_plan, draw, 4),
    "conditions": (nothing, submit, 4),
    "results": (large_plan, read, 4),
    "tokens": (nothing, guess, 40),
}


async def attack(name: str, address: str, token: str, prepared: dict[str, Any]) -> None:
    """Carry out an attack until stdin is closed, then print the counts of the answers."""
    _, act, connections = ATTACKS[name]
    codes: Counter[str] = Counter()
    numbers = itertools.count()

    async def pester() -> None:
        async with Caller(address, token) as caller:
            while True:
                codes[await act(caller, next(numbers), **prepared)] += 1
                if codes.total() == 1:
                    print(BEGUN, flush=True)

    pestering = [asyncio.create_task(pester()) for _ in range(connections)]
    await asyncio.wait(
        [asyncio.create_task(asyncio.to_thread(sys.stdin.read)), *pestering],
        timeout=LONGEST_SECONDS,
        return_when=asyncio.FIRST_COMPLETED,
    )
    for task in pestering:
        if task.done() and task.exception():
            codes[repr(task.exception())] += 1
        task.cancel()
    print(json.dumps(codes))


@asynccontextmanager
async def attacked(
    name: str, address: str, token: str, prepared: dict[str, Any]
) -> AsyncIterator[Counter[str]]:
    """Run an attack in a process for the length of a block; its answers are counted afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--attack", name, "--address", address),
        stdin=PIPE,
        stdout=PIPE,
        env={**os.environ, "ATTACK_TOKEN": token, "ATTACK_PREPARED": json.dumps(prepared)},
    )
    codes: Counter[str] = Counter()
    try:
        assert process.stdout
        begun = await process.stdout.readline()
        assert begun.decode().strip() == BEGUN, begun
        yield codes
    finally:
        said, _ = await process.communicate(b"")
        codes.update(json.loads(said or b"{}"))


async def main(calls: int, rounds: int, only: str | None) -> None:
    """Measure every attack against the baseline of its round."""
    names = [only] if only else list(ATTACKS)
    alone: dict[str, list[float]] = {name: [] for name in names}
    during: dict[str, list[float]] = {name: [] for name in names}
    codes: dict[str, Counter[str]] = {name: Counter() for name in names}
    used = dict.fromkeys(names, 0.0)
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder}, {}).settings
        async with database_server(settings):  # one database for all processes
            tokens = {org: await a_token(folder, org) for org in (OURS, THEIRS)}
            async with serving(folder) as (address, process):
                async with Caller(address, tokens[THEIRS]) as caller:
                    prepared = {name: await ATTACKS[name][0](caller) for name in names}
                await waits(address, tokens[OURS], 40)  # warm-up
                for _, name in itertools.product(range(rounds), names):
                    alone[name] += await waits(address, tokens[OURS], calls)
                    async with attacked(name, address, tokens[THEIRS], prepared[name]) as said:
                        before = cpu_seconds(process)
                        during[name] += await waits(address, tokens[OURS], calls)
                        used[name] += cpu_seconds(process) - before
                    codes[name] += said
    report(alone, during, codes, used)


def report(
    alone: dict[str, list[float]],
    during: dict[str, list[float]],
    codes: dict[str, Counter[str]],
    used: dict[str, float],
) -> None:
    """Print the latencies and their ratios; fail beyond the limit."""
    print(f"{'another org, in ms':20}{'p50':>8}{'p99':>8}{'max':>8}{'p99 ratio':>11}")
    ratios = {}
    for name in alone:
        p99 = {which: quantiles(found[name], n=100)[-1] for which, found in both(alone, during)}
        ratios[name] = p99["during"] / p99["alone"]
        for which, found in both(alone, during):
            label = name if which == "during" else "  alone"
            ratio = f"{ratios[name]:11.2f}" if which == "during" else ""
            values = found[name]
            print(f"{label:20}{median(values):8.1f}{p99[which]:8.1f}{max(values):8.1f}{ratio}")
        print(f"    answered {dict(codes[name])}; the server used {used[name]:.1f} s of CPU")
    print(f"limit {LIMIT}")
    beyond = {name: round(ratio, 2) for name, ratio in ratios.items() if ratio > LIMIT}
    assert not beyond, f"p99 beyond {LIMIT} times the baseline: {beyond}"


def both(
    alone: dict[str, list[float]], during: dict[str, list[float]]
) -> tuple[tuple[str, dict[str, list[float]]], ...]:
    """Pair each set of latencies with its name."""
    return ("alone", alone), ("during", during)


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
