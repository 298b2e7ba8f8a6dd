"""Run an agent on a task: one round, and one more if its result must be repaired."""

import asyncio
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime

from waybook.json_values import Json
from waybook.work import keeper
from waybook.work.adapters import Adapter
from waybook.work.endpoint import complete
from waybook.work.output import reset_time
from waybook.work.process import AgentRun, private_folders
from waybook.work.results import ResultBlock, native_schema, parse_json
from waybook.work.tasks import Limits, Outcome, OutcomeKind, Round, Task, Usage
from waybook.work.transcript import Transcript, secrets_of


async def run_agent(
    adapter: Adapter, task: Task, limits: Limits, on_line: Callable[[str], None]
) -> Outcome:
    """Run an agent until it ends or reaches a limit. `on_line` gets each line for people.

    If the result does not match the schema, the agent gets one more round to repair it.
    """
    run = _TaskRun(adapter, task, limits, Transcript(secrets_of(adapter, task), on_line))
    done, faults = await run.ask(task.prompt + run.instruction, run.conversation or None)
    if faults:
        done, faults = await run.repair(done, faults)
    return run.outcome(done, faults)


class _TaskRun:
    """Rounds of one task, and what they used together."""

    def __init__(
        self, adapter: Adapter, task: Task, limits: Limits, transcript: Transcript
    ) -> None:
        self._adapter, self._task, self._limits = adapter, task, limits
        self._transcript = transcript
        self._is_native = native_schema(adapter, task.schema)
        self._block = ResultBlock(task.schema)
        self.instruction = "" if task.schema is None else self._block.instruction
        self.conversation, *counts = (task.resume or "").split("#")
        #: Usage of earlier runs of the conversation.
        self._before = Usage()
        match counts:
            case [tokens_in, tokens_out, cost]:
                self._before = Usage(int(tokens_in), int(tokens_out), int(cost))
        self._spent = Usage()
        self._deadline = asyncio.get_running_loop().time() + limits.seconds
        self._result: Json = None
        self._text = ""

    async def ask(self, prompt: str, conversation: str | None) -> tuple[Round, list[str]]:
        """Run one round; return what came back, and what is wrong with its result."""
        if conversation is None:
            self._before = Usage()
        schema = self._task.schema if self._is_native else None
        request = self._task._replace(prompt=prompt, schema=schema, resume=conversation)
        if self._adapter.endpoint is None:
            run = AgentRun(self._adapter, request, self._left(), self._transcript, self._before)
            done = await run.run()
        else:
            request = request._replace(schema=self._task.schema)
            done = await complete(self._adapter.endpoint, request, self._left())
        self._spent = self._spent.plus(done.usage)
        self._before = self._before.plus(done.usage)
        self._text = done.text
        if self._task.schema is None or done.kind is not OutcomeKind.DONE:
            return done, []
        marked, self._text = self._block.split(done.text)
        self._result = marked if done.result is None else done.result
        if self._result is None and (self._is_native or self._adapter.output == "text"):
            self._result = parse_json(done.text)
        return done, self._block.faults(self._result)

    async def repair(self, done: Round, faults: list[str]) -> tuple[Round, list[str]]:
        """Ask for the result once more, in the same conversation if the agent can resume it."""
        self._transcript.note(f"the result is asked for again: {faults[0]}")
        conversation = done.conversation if self._adapter.can_resume else None
        prompt = self._block.repair(
            faults, self._task.prompt, self._text, resumed=conversation is not None
        )
        return await self.ask(prompt, conversation)

    def _left(self) -> Limits:
        """Return what is left of the limits."""
        used = (self._spent.input_tokens or 0) + (self._spent.output_tokens or 0)
        tokens, cost = self._limits.tokens, self._limits.cost_micros
        return self._limits._replace(
            seconds=max(0.0, self._deadline - asyncio.get_running_loop().time()),
            tokens=None if tokens is None else tokens - used,
            cost_micros=None if cost is None else cost - (self._spent.cost_micros or 0),
        )

    def outcome(self, done: Round, faults: list[str]) -> Outcome:
        kind, message = done.kind, done.message
        if faults:
            kind = OutcomeKind.FAILED
            message = f"the result does not match the schema: {'; '.join(faults)}"
        if message:
            message = self._transcript.mask(message)
            self._transcript.note(message)
        now = datetime.fromtimestamp(time.time(), UTC).astimezone()
        is_done = kind is OutcomeKind.DONE
        return Outcome(
            kind,
            self._transcript.hide(self._text),
            self._transcript.hide_in(self._result) if is_done else None,
            self._spent,
            self._conversation(done),
            reset_time(done.errors, now) if kind is OutcomeKind.QUOTA else None,
            message,
            bytes(self._transcript),
        )

    def _conversation(self, done: Round) -> str | None:
        """Return the conversation, with its usage so far if the agent will report that again."""
        if done.conversation is None or not self._adapter.usage_of_conversation:
            return done.conversation
        return "#".join([done.conversation, *(str(count or 0) for count in self._before[:3])])


def end_leftovers() -> int:
    """Kill the agents of dead workers, and remove their files; return the number of processes."""
    count = keeper.kill_marked(_is_dead)
    for folder in private_folders().glob("*.*.*"):
        if _is_dead(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
    return count


def _is_dead(mark: str) -> bool:
    pid, _, rest = mark.partition(".")
    return pid.isdigit() and keeper.read_stat(int(pid))[2] != rest.partition(".")[0]
