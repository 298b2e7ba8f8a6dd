"""Time for 200 jobs on a model endpoint, compared with a bare asyncio loop of equal concurrency.

The endpoint answers every request after the same delay. The bare loop sends the same requests with
the same HTTP library, and reads the JSON of the answers; `run_agent` also looks for the result,
checks it against the schema and keeps a transcript.

    python benchmarks/work_endpoint.py [--rounds 5]
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2

from fake_endpoint import Writer, answer, fake_endpoint
from limits import Check, format_checks
from waybook.json_values import Json
from waybook.work.adapters import Adapter, Endpoint
from waybook.work.agent_process import run_agent
from waybook.work.endpoint import INSTRUCTIONS, close_endpoints
from waybook.work.tasks import Limits, OutcomeKind, Task

JOBS = 200
WORKERS = 16
ANSWER_SECONDS = 0.1
LIMIT = 1.2
SCHEMA: Json = {"type": "object", "properties": {"rivers": {"type": "integer"}}}
PROMPT = "How many rivers are there? " * 200


async def timed(job: Callable[[], Awaitable[None]]) -> float:
    """Return the seconds for all jobs, with as many at a time as there are workers."""
    left = iter(range(JOBS))

    async def work() -> None:
        for _ in left:
            await job()

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(WORKERS)))
    return time.perf_counter() - started


async def measure() -> float:
    """Return the time with `run_agent`, as a multiple of that of the bare loop."""
    choice = {"message": {"content": '{"rivers": 3}'}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1_000, "completion_tokens": 10}
    send = answer({"model": "m1", "choices": [choice], "usage": usage})

    async def play(writer: Writer) -> None:
        await asyncio.sleep(ANSWER_SECONDS)
        await send(writer)

    async with fake_endpoint(play) as server:
        messages = [{"role": "system", "content": INSTRUCTIONS}]
        messages.append({"role": "user", "content": PROMPT})
        body = {"model": "m1", "messages": messages}
        limits = httpx2.Limits(max_connections=WORKERS)
        async with httpx2.AsyncClient(limits=limits, timeout=None) as client:

            async def bare() -> None:
                response = await client.post(f"{server.url}/v1/chat/completions", json=body)
                text = response.json()["choices"][0]["message"]["content"]
                assert json.loads(text) == {"rivers": 3}

            await bare()
            bare_seconds = await timed(bare)
        agent = Adapter(name="local", endpoint=Endpoint(url=f"{server.url}/v1", model="m1"))
        task = Task(PROMPT, Path(), SCHEMA)

        async def ours() -> None:
            outcome = await run_agent(agent, task, Limits(), lambda _: None)
            assert outcome.kind is OutcomeKind.DONE
            assert outcome.result == {"rivers": 3}

        await ours()
        our_seconds = await timed(ours)
        await close_endpoints()
    print(f"bare loop {bare_seconds:.3f} s, run_agent {our_seconds:.3f} s")
    return our_seconds / bare_seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = [asyncio.run(measure()) for _ in range(parser.parse_args().rounds)]
    check = Check(
        name="200 jobs / bare loop", rounds=rounds, direction="<=", limit=LIMIT, goal=LIMIT
    )
    print(format_checks([check]))
    return int(check.verdict() == "limit missed")


if __name__ == "__main__":
    sys.exit(main())
