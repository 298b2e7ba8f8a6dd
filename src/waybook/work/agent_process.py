"""Run an agent on a task: one round, and one more if its work must be corrected."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import cast

from waybook.json_values import Json
from waybook.redaction import redact_json
from waybook.work.adapters import Adapter
from waybook.work.endpoint import complete
from waybook.work.output import reset_time
from waybook.work.process import AgentRun
from waybook.work.results import ResultBlock, native_schema, parse_json
from waybook.work.tasks import Limits, Outcome, OutcomeKind, Task, Usage
from waybook.work.transcript import Transcript, secrets_of

_MAX_SHOWN_LENGTH = 4_000
#: Name of a conversation, with what was used in it.
_NAME = re.compile(r"(.*)#(\d+)#(\d+)#(\d+)", re.DOTALL)


async def run_agent(
    adapter: Adapter,
    task: Task,
    limits: Limits,
    on_line: Callable[[str], None],
    accept: Callable[[Outcome], Awaitable[Outcome]] | None = None,
) -> Outcome:
    """Run an agent until it ends or reaches a limit. `on_line` gets each line for people.

    If the result does not match the schema, or `accept` returns a rejected outcome, the agent gets
    one more round to correct it, within what is left of the limits.
    """
    block = ResultBlock(task.schema)
    request = task._replace(prompt=task.prompt + block.instruction)
    left, used, outcome = limits, Usage(), Outcome(OutcomeKind.FAILED)
    for is_last in (False, True):
        started = asyncio.get_running_loop().time()
        outcome = await _run_round(adapter, request, left, on_line, block)
        left = left.after(asyncio.get_running_loop().time() - started, outcome.usage)
        used = used.plus(outcome.usage)
        outcome = outcome._replace(usage=used)
        if accept is not None:
            outcome = await accept(outcome)
        if outcome.kind is not OutcomeKind.REJECTED or is_last or left.are_used_up:
            break
        on_line(f"[waybook] asked again: {outcome.message}")
        fault = (
            f"Your work was not accepted: {outcome.message}\n\n"
            "Do not repeat what is right: correct the rest, then answer again, completely."
        )
        resume = outcome.conversation if adapter.takes("conversation") else None
        if resume is None:
            answer = outcome.text[-_MAX_SHOWN_LENGTH:]
            fault = f"{task.prompt}\n\n# Your last try\n\n{fault}\n\nYour answer was:\n\n{answer}"
        request = task._replace(prompt=fault + block.instruction, resume=resume)
    is_rejected = outcome.kind is OutcomeKind.REJECTED
    return outcome._replace(kind=OutcomeKind.FAILED) if is_rejected else outcome


async def _run_round(
    adapter: Adapter, task: Task, limits: Limits, on_line: Callable[[str], None], block: ResultBlock
) -> Outcome:
    """Run an agent once, and read and check its result."""
    transcript = Transcript(secrets_of(adapter, task), on_line)
    is_native = native_schema(adapter, task.schema)
    # The name of a conversation carries its usage, if the agent will report that again.
    conversation, before = task.resume or "", Usage()
    if adapter.usage_of_conversation and (known := _NAME.fullmatch(conversation)):
        conversation, before = known[1], Usage(int(known[2]), int(known[3]), int(known[4]))
    if adapter.endpoint is None:
        request = task._replace(resume=conversation, schema=task.schema if is_native else None)
        done = await AgentRun(adapter, request, limits, transcript, before).run()
    else:
        done = await complete(adapter.endpoint, task, limits)
    kind, message, text, result = done.kind, done.message, done.text, done.result
    if task.schema is not None and kind is OutcomeKind.DONE:
        marked, text = block.split(done.text)
        result = marked if result is None else result
        if result is None and (is_native or adapter.output == "text"):
            result = parse_json(done.text)
        if fault := block.fault(result):
            kind = OutcomeKind.REJECTED
            message = f"the result does not match the schema: {fault}"
    if message:
        message = transcript.mask(message)
        transcript.note(message)
    now = datetime.fromtimestamp(time.time(), UTC).astimezone()
    is_done, is_quota = kind is OutcomeKind.DONE, kind is OutcomeKind.QUOTA
    name = done.conversation
    if name is not None and adapter.usage_of_conversation:
        name = "#".join(map(str, (name, *before.plus(done.usage)[:3])))
    return done._replace(
        kind=kind,
        message=message,
        text=transcript.hide(text),
        result=cast("Json", redact_json(result, transcript.hide)) if is_done else None,
        conversation=name,
        resumes_at=reset_time(done.errors, adapter.errors.resets, now) if is_quota else None,
        transcript=str(transcript),
    )
