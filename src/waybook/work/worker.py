"""One worker: claims a step or job, lets its agent do it, and waits when the agent cannot work."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from waybook.client import Client, HoldLost
from waybook.client.claims import ClaimTerms
from waybook.client.client import COMPLETE, READY
from waybook.errors import WaybookError
from waybook.json_values import Json, format_time
from waybook.work.adapters import Adapter
from waybook.work.agent_process import run_agent
from waybook.work.delivery import HEARTBEAT_SECONDS, Workshop
from waybook.work.held import HeldJob, HeldStep
from waybook.work.prompts import job_prompt, name_of
from waybook.work.records import Record, Stage, read_record
from waybook.work.step_work import StepWork
from waybook.work.tasks import MICROS_PER_DOLLAR, Limits, Outcome, OutcomeKind, Task, Usage
from waybook.work.worktrees import GitError

log = logging.getLogger(__name__)

_NOTHING: Final = Usage()
_MAX_LINES: Final = 20
_MAX_FAILURES: Final = 5
_MAX_REASON_LENGTH: Final = 500
_MAX_LOG_BYTES: Final = 1024 * 1024
_REPORT_SECONDS: Final = 10.0
_ERROR_SECONDS: Final = 30.0
_MIN_REPORT_SECONDS: Final = 2.0
#: Seconds that an agent waits after an outcome that says nothing about when it can work again, and
#: what the person should know.
_WAITS: Final[Mapping[OutcomeKind, tuple[float, str]]] = {
    OutcomeKind.QUOTA: (300.0, "is at the limit of its provider"),
    OutcomeKind.SIGN_IN: (300.0, "is not signed in: sign in again with its own command"),
    OutcomeKind.NO_MODEL: (900.0, "has no such model: change its entry in agents.toml"),
    OutcomeKind.NO_NETWORK: (30.0, "cannot reach its provider"),
    OutcomeKind.OVER_CAP: (1.0, "has used what was reserved"),
}


@dataclass(slots=True)
class Agent:
    """An agent of the command line, and what its workers know about it together."""

    adapter: Adapter
    client: Client
    failures: int = 0
    #: When the agent can work again, and why not earlier.
    resumes_at: datetime | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        return self.adapter.name

    @property
    def has_stopped(self) -> bool:
        return self.failures >= _MAX_FAILURES


@dataclass(slots=True)
class Worker:
    shop: Workshop
    agent: Agent
    session: str
    draining: asyncio.Event
    #: What the worker reports: its state, why, and what it works on.
    state: dict[str, str] = field(default_factory=dict)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_LINES))
    #: Whether work failed for good, or is left that this worker cannot do.
    has_failed: bool = False
    #: Plans and runs at a cap, with its status: work is reserved there before it is claimed.
    capped: dict[str, str] = field(default_factory=dict)

    async def run(self) -> None:
        """Work until everything is complete, nothing can be done, or the process drains."""
        reports = asyncio.create_task(self._report())
        try:
            while not (self.draining.is_set() or self.agent.has_stopped or self.shop.is_over):
                if (until := self.agent.resumes_at) and (left := until - _now()) > timedelta():
                    self._note("sleeping", self.agent.reason, until=format_time(until))
                    await self._pause(min(left.total_seconds(), self.shop.options.wait_seconds))
                elif not await self._try_to_work():
                    self.shop.is_over = True
            if self.agent.has_stopped:
                self.has_failed = True
                self.shop.options.say(
                    f"{self.agent.name} stopped after {_MAX_FAILURES} failures in a row"
                )
        finally:
            reports.cancel()
            await asyncio.wait([reports])
            with suppress(WaybookError, TimeoutError):
                async with asyncio.timeout(_MIN_REPORT_SECONDS):
                    await self._send_report({"state": "ended"})

    async def _try_to_work(self) -> bool:
        try:
            return await self._work_once()
        except WaybookError as error:
            if self.shop.options.subject:
                raise
            # Workers for all plans outlive a plan that is deleted, or a server without rights.
            self._note("sleeping", error.message)
            await self._pause(_ERROR_SECONDS)
            return True

    async def _work_once(self) -> bool:
        """Do one step or job, or wait for one. Return whether there may be more work."""
        wanted, ended = await self._wanted(), 0
        for subject in wanted:
            if self.draining.is_set():
                return True
            if (name := next(iter(subject.values()), "")) in self.capped:
                reserved = await self._reserve(subject)
                if reserved is None:
                    ended += self.capped[name] == "ended"
                    continue
                await self._settle(reserved[0], "given_back")
            reply = await self._claim(subject, waits=len(wanted) == 1)
            if reply["status"] in READY:
                await self._do(reply)
                return True
            ended += self._is_over(reply)
        if ended == len(wanted) == 1 and wanted[0]:
            return False
        if len(wanted) > 1 or self.capped:
            await self._pause(self.shop.options.wait_seconds)
        return True

    async def _wanted(self) -> list[Mapping[str, str]]:
        """Return the plans and runs that may have work, as arguments of the calls that claim it."""
        if self.shop.options.subject:
            return [self.shop.options.subject]
        plans = (await self.agent.client.call("list_active_plans", limit=100))["plans"]
        return [*({"planId": plan["planId"]} for plan in plans), {}]

    async def _claim(self, subject: Mapping[str, str], *, waits: bool) -> dict[str, Any]:
        tool = "get_next_step" if "planId" in subject else "get_next_job"
        more = {"waitSeconds": self.shop.options.wait_seconds} if waits else {}
        if not self.state or self.state["state"] != "parked":
            self._note("sleeping", "no step or job is free")
        reply = await self.agent.client.call(tool, **subject, **more, sessionId=self.session)
        if "planId" in subject:
            await self.shop.settle(self.agent.client, subject["planId"])
        return reply

    def _is_over(self, reply: Mapping[str, Any]) -> bool:
        """Return whether no work is left, now or later, or none that agents can do."""
        status = reply["status"]
        if status in COMPLETE:
            return True
        has_only_failures = status == "no_pending_steps" and not reply["inProgress"]
        if status in {"plan_failed", "run_canceled", "stage_failed"} or has_only_failures:
            self.has_failed = True
            return True
        return False

    async def _do(self, reply: dict[str, Any]) -> None:
        kind = HeldStep if "stepId" in reply else HeldJob
        claim = kind(self.agent.client, reply, ClaimTerms(self.session, "retry", HEARTBEAT_SECONDS))
        name = "planId" if "planId" in reply else "runId"
        subject = {name: str(reply[name])}
        outcome, end, reserved = None, "given_back", None
        started = asyncio.get_running_loop().time()
        self.lines.clear()
        try:
            async with claim:
                reserved = await self._reserve(subject)
                if reserved is None:
                    await claim.give_back(self.state["reason"])
                    await self._pause(self.shop.options.wait_seconds)
                    return
                working = {**subject, f"{claim.KIND}Id": claim.id}
                self._note("working", "", reservationId=reserved[0], **working)
                if isinstance(claim, HeldStep):
                    outcome = await self._do_step(claim, *reserved)
                else:
                    outcome = await self._do_job(claim, reserved[1])
                end = await self._conclude(claim, outcome)
        except HoldLost as error:
            self.shop.options.say(f"{self.session}: {error}")
        except (WaybookError, GitError, OSError) as error:
            end = "failed"
            self.agent.failures += 1
            self.shop.options.say(f"{self.session}: {type(error).__name__}: {error}")
        finally:
            if reserved is not None:
                seconds = asyncio.get_running_loop().time() - started
                # An agent that wrote something had started. What it used is unknown if it was
                # interrupted.
                used = outcome.usage if outcome else reserved[1].most if self.lines else _NOTHING
                await self._settle(reserved[0], end, used, seconds)

    async def _do_step(self, step: HeldStep, reservation_id: str, limits: Limits) -> Outcome:
        shop, name = self.shop, f"step {step.order} {name_of(step.reply)}"
        path = shop.state.record_path(step.plan_id, step.step_id)
        record = read_record(path)
        if record is None or record.stage is not Stage.PARKED:
            record = Record(path, step.reply, self.session, self.agent.name)
        record.reply, record.session = step.reply, self.session
        record.reservation = {
            "reservationId": reservation_id,
            "seconds": round(limits.seconds),
            "usage": limits.most.arguments(),
        }
        shop.options.say(f"{self.session} ({self.agent.name}): {name}")
        with shop.state.open_log(f"{step.plan_id}-{step.step_id}-{step.attempt}") as log_file:

            def show(line: str) -> None:
                if log_file.tell() < _MAX_LOG_BYTES:
                    log_file.write(f"{line}\n")
                self.lines.append(line[:_MAX_REASON_LENGTH])

            agent = self.agent
            work = StepWork(shop, agent.client, step, agent.adapter, limits, show, record)
            outcome = await work.run()
        if record.stage is Stage.PARKED:
            self._note("parked", f"step {step.order} waits for a review")
            shop.options.say(f"{self.session}: {self.state['reason']}")
        return outcome

    async def _do_job(self, job: HeldJob, limits: Limits) -> Outcome:
        inputs = [(each["documentKey"], await job.read_input(each)) for each in job.inputs]
        keys = [document["documentKey"] for document in job.documents]
        schema: Json = None
        if len(keys) > 1:
            texts: Json = {key: {"type": "string"} for key in keys}
            schema = {"type": "object", "properties": texts, "required": list[Json](keys)}
        with TemporaryDirectory(prefix="waybook-job-") as folder:
            prompt = job_prompt(job.prompt, inputs, job.so_far)
            task = Task(prompt, Path(folder), schema, secrets=self.shop.options.secrets)
            outcome = await run_agent(self.agent.adapter, task, limits, self.lines.append)
        if outcome.kind is not OutcomeKind.DONE:
            return outcome
        usage: Any = outcome.usage.arguments() or None
        if schema is None:
            await job.submit(outcome.text, usage=usage)
        else:
            values: Any = outcome.result
            documents: Any = [
                {**each, "content": values[each["documentKey"]]} for each in job.documents
            ]
            await job.submit(documents=documents, usage=usage)
        return outcome

    async def _conclude(self, claim: HeldStep | HeldJob, outcome: Outcome) -> str:
        """End a claim whose work is not done, and return the outcome for the caps."""
        agent, reason = self.agent, outcome.message[:_MAX_REASON_LENGTH] or str(outcome.kind)
        if outcome.kind is OutcomeKind.DONE:
            agent.failures, agent.resumes_at = 0, None
            return "completed"
        if outcome.kind in _WAITS:
            seconds, why = _WAITS[outcome.kind]
            usual = _now() + timedelta(seconds=seconds)
            agent.resumes_at, agent.reason = outcome.resumes_at or usual, f"{agent.name} {why}"
            self.shop.options.say(
                f"{agent.reason}; next try {agent.resumes_at:%H:%M:%S} UTC: {reason}"
            )
            if claim.is_held:
                await claim.give_back(
                    f"{agent.reason}: {reason}"[:_MAX_REASON_LENGTH],
                    resumes_at=agent.resumes_at,
                    agent=agent.name,
                )
            return "given_back"
        agent.failures += 1
        self.shop.options.say(f"{self.session}: {claim.KIND} {claim.id} failed: {reason}")
        may_retry = await claim.failures() + 1 < self.shop.options.max_attempts
        self.has_failed |= not may_retry
        if claim.is_held:
            await claim.end_attempt(reason, may_retry=may_retry)
        return "failed"

    async def _reserve(self, subject: Mapping[str, str]) -> tuple[str, Limits] | None:
        """Reserve what one step or job may use; return None at a cap."""
        options, name = self.shop.options, next(iter(subject.values()))
        wanted = options.reservation(subject)
        named = {"agent": self.agent.name, "sessionId": self.session}
        reply = await self.agent.client.call("reserve_work", **wanted, **named)
        if reply["status"] == "granted":
            self.capped.pop(name, None)
            most, usual = reply.get("maximum") or {}, options.limits
            cost = most.get("costUsd")
            return str(reply["reservationId"]), usual._replace(
                seconds=min(usual.seconds, float(most.get("seconds") or usual.seconds)),
                cost_micros=None if cost is None else round(cost * MICROS_PER_DOLLAR),
                tokens=most.get("tokens"),
            )
        cap = reply["cap"]
        used = f"{cap['used']} of {cap['limit']} {cap['unit']} per {cap['scope']} are used"
        where = f"; decide here: {reply['url']}" if reply.get("url") else ""
        self._note("sleeping", f"{reply['status']}: {used}{where}", **subject)
        if name not in self.capped:
            options.say(f"{self.session}: {self.state['reason']}")
        self.capped[name] = reply["status"]
        self.has_failed |= reply["status"] == "ended"
        return None

    async def _settle(
        self, reservation: str, end: str, used: Usage = _NOTHING, seconds: float = 0.0
    ) -> None:
        try:
            await self.agent.client.call(
                "settle_work",
                reservationId=reservation,
                outcome=end,
                usage=used._replace(model=None).arguments(),
                seconds=round(seconds),
            )
        except WaybookError as error:  # It ends on its own.
            log.warning("the reservation %s was not settled: %s", reservation, error)

    def _note(self, state: str, reason: str = "", **more: str | None) -> None:
        named = {"state": state, "reason": reason[:_MAX_REASON_LENGTH], **more}
        self.state = {name: value for name, value in named.items() if value}

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.draining.wait()

    async def _report(self) -> None:
        """Report the state and the last lines when they change, and every ten seconds."""
        sent, due = dict[str, object](), 0.0
        while True:
            state: dict[str, object] = {**self.state, "lines": [*self.lines]}
            if self.draining.is_set():
                state["state"] = "draining"
            now = asyncio.get_running_loop().time()
            if self.state and (state != sent or now >= due):
                sent, due = state, now + _REPORT_SECONDS
                try:
                    await self._send_report(state)
                except WaybookError as error:
                    log.warning("the report of %s failed: %s", self.session, error)
            await asyncio.sleep(_MIN_REPORT_SECONDS)

    async def _send_report(self, state: Mapping[str, object]) -> None:
        named = {"sessionId": self.session, "agent": self.agent.name}
        named["host"] = self.shop.options.host
        await self.agent.client.call("report_worker", **named, **state)


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)
