"""Twelve guarantees of Waybook, each with a pure function that checks calls and database rows."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from faults.history import Call, History, Outcome
from faults.replay import Board, Opening, Started
from faults.rows import Entry, Rows

MAX_INTERNAL_ERRORS: Final = 5
OVER: Final = frozenset({"completed", "failed"})


@dataclass(frozen=True, slots=True)
class Violation:
    """Violation of a guarantee: the checker that found it, and a message."""

    checker: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Data of a test run for the checkers: history of calls, database rows, and logs."""

    history: History
    rows: Rows
    #: For each step of the workflow, the steps on which it depends directly.
    before: dict[str, tuple[str, ...]]
    #: Lines in the logs of the servers that report an internal error.
    internal_errors: tuple[str, ...] = ()
    #: Rows that a transaction without an org could see through pgbouncer; there must be none.
    unnamed_sees: tuple[str, ...] = ()
    #: False if the agents did not complete all plans and runs in time after the last fault.
    was_drained: bool = True


Violations = Iterator[str]


def acknowledged_effects(evidence: Evidence) -> Violations:
    """Check that the rows contain the effect of each acknowledged call."""
    rows = evidence.rows
    marked = {tool for tool, _ in rows.effects} | MARKED_TOOLS
    for call in evidence.history.calls:
        if not call.is_acknowledged or call.key is None:
            continue
        if call.tool in marked and not rows.effects[call.tool, call.key]:
            yield f"{describe(call)} was acknowledged, but its effect is not stored"
    started = {
        (_audited_work(entry), entry.details.get("attempt"))
        for entry in rows.audit
        if entry.event == "step_started"
    }
    for call in _claims(evidence.history):
        work, resumes = _work_of(call), call.reply.get("resumed")
        if call.tool != "submit_user_decision" and not resumes and work not in started:
            yield f"{describe(call)} handed out {work}, but the audit has no start of it"


MARKED_TOOLS: Final = frozenset(
    {
        "create_research_plan",
        "start_run",
        "submit_step_result",
        "request_user_review",
        "submit_user_decision",
        "submit_job_result",
        "modify_plan",
        "fail_job",
    }
)


def single_effect_per_key(evidence: Evidence) -> Violations:
    """Check that calls with the same key take effect once, and have a stored answer."""
    rows = evidence.rows
    for call in evidence.history.calls:
        if call.key is None:
            continue
        count = rows.effects[call.tool, call.key]
        if count > 1:
            yield f"{describe(call)} took effect {count} times"
        if count and call.outcome is Outcome.REFUSED:
            yield f"{describe(call)} was refused ({call.code}), but took effect"
        if call.is_acknowledged and (call.tool, call.key) not in rows.answers:
            yield f"{describe(call)} was acknowledged, but its answer is not stored"


def single_holder(evidence: Evidence) -> Violations:
    """Check that each attempt has one holder, and no conversation holds two steps or jobs."""
    holders: dict[tuple[str, int], Call] = {}
    for call in _claims(evidence.history):
        first = holders.setdefault(_work_of(call), call)
        if first.holder != call.holder:
            yield f"{describe(call)} was handed what {describe(first)} holds: {_work_of(call)}"
    yield from _early_takeovers(evidence.history)
    yield from _replayed(evidence, Started)


def _early_takeovers(history: History) -> Violations:
    """Yield a violation for each job that another agent got before the lease had expired."""
    claims: dict[str, dict[int, Call]] = defaultdict(dict)
    released_attempts = {
        (call.args["jobId"], call.args["attempt"])
        for call in history.calls
        if call.tool in {"fail_job", "submit_job_result"} and call.outcome is not Outcome.REFUSED
    }
    for call in history.of("get_next_job"):
        if call.reply.get("status") == "job_ready":
            claims[call.reply["jobId"]].setdefault(call.reply["attempt"], call)
    for job_id, attempts in claims.items():
        for attempt, later in attempts.items():
            earlier = attempts.get(attempt - 1)
            if earlier is None or (job_id, attempt - 1) in released_attempts:
                continue
            lease = earlier.reply.get("leaseSeconds", 0)
            gap = later.received - earlier.sent
            if gap < lease:
                yield (
                    f"{describe(later)} took job {job_id} over from {describe(earlier)} "
                    f"after {gap:.2f} s; the lease is {lease} s"
                )


def no_stale_result(evidence: Evidence) -> Violations:
    """Check that only the holder of the current attempt could submit a result."""
    completed = {
        _audited_work(entry): entry.details.get("attempt")
        for entry in evidence.rows.audit
        if entry.event == "step_completed"
    }
    for call in evidence.history.of("submit_step_result", "submit_job_result"):
        counted = completed.get(call.args.get("stepId") or call.args["jobId"])
        if counted is not None and counted != call.args["attempt"]:
            yield (
                f"{describe(call)} submitted attempt {call.args['attempt']}, "
                f"but the audit has a result of attempt {counted}"
            )


def audit_is_sealed(evidence: Evidence) -> Violations:
    """Check that no audit entry is missing, and that every seal is valid."""
    yield from evidence.rows.broken_chains
    last: dict[str, int] = {}
    for entry in evidence.rows.audit:
        if entry.seq != last.get(entry.subject_id, 0) + 1:
            yield f"{entry.subject_id}: entry {entry.seq} follows {last.get(entry.subject_id, 0)}"
        last[entry.subject_id] = entry.seq


def replay_equals_rows(evidence: Evidence) -> Violations:
    """Check that the stored rows equal the rows of the replayed audit."""
    yield from evidence.rows.replay_differences


def counts_never_fall(evidence: Evidence) -> Violations:
    """Check that the progress never decreases from one reply to a later one."""
    replies: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for call in evidence.history.calls:
        done = _done(call)
        subject = call.reply.get("planId") or call.reply.get("runId")
        if done is not None and subject is not None:
            replies[subject].append((call.answered_sent, call.received, done))
    for subject, counted in replies.items():
        ended: list[tuple[float, int]] = []
        most = 0
        for sent, received, done in sorted(counted):
            while ended and ended[0][0] < sent:
                most = max(most, heapq.heappop(ended)[1])
            if done < most:
                yield f"{subject}: {done} done at {received:.3f} s, after {most} had been reported"
            heapq.heappush(ended, (received, done))


def _done(call: Call) -> int | None:
    if not call.is_acknowledged or call.is_replayed:
        return None
    if call.tool == "get_plan_status":
        return int(call.reply["counts"]["done"])
    if call.tool in {"submit_step_result", "submit_user_decision"}:
        return int(call.reply["progress"]["done"])
    if call.tool == "submit_job_result":
        return int(call.reply["stage"]["progress"]["completedSteps"])
    return None


def fan_in_is_exact(evidence: Evidence) -> Violations:
    """Check that a step closes with its last job, and opens when all steps before it are closed."""
    rows = evidence.rows
    ended: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for job in rows.jobs.values():
        ended[job.run_id, job.step_key].append(
            job.completed_at if job.status == "completed" else None
        )
    for (run_id, key), step in rows.stage_steps.items():
        times = ended[run_id, key]
        is_done = len(times) == step.total and None not in times
        if (step.closed_at is not None) != is_done or (is_done and step.done != step.total):
            yield f"run {run_id}: the jobs of {key} ended at {times}, but its row is {step}"
        elif is_done and times and step.closed_at != max(times):
            yield f"run {run_id}: {key} closed at {step.closed_at}, but its jobs ended at {times}"
        before = [
            rows.stage_steps.get((run_id, predecessor)) for predecessor in evidence.before[key]
        ]
        closed: list[Any] = [
            predecessor.closed_at if predecessor else None for predecessor in before
        ]
        if None in closed or (closed and step.opened_at != max(closed)):
            yield (
                f"run {run_id}: {key} opened at {step.opened_at}, "
                f"but the steps that it depends on closed at {closed}"
            )
    yield from _never_opened(evidence)
    yield from _replayed(evidence, Opening)


def _never_opened(evidence: Evidence) -> Violations:
    rows = evidence.rows
    for run_id in rows.runs:
        for key, before in evidence.before.items():
            closed = [rows.stage_steps.get((run_id, predecessor)) for predecessor in before]
            free = all(
                predecessor is not None and predecessor.closed_at is not None
                for predecessor in closed
            )
            if free and (run_id, key) not in rows.stage_steps:
                yield f"run {run_id}: {key} did not open, but all steps before it are closed"


def _replayed(evidence: Evidence, kind: type[Started | Opening]) -> Violations:
    board = Board({step_id: step.depends_on for step_id, step in evidence.rows.steps.items()})
    for entry in evidence.rows.audit:
        for error in board.take(entry):
            if isinstance(error, kind):
                yield error.message


def tenants_apart(evidence: Evidence) -> Violations:
    """Check that replies contain only data of the caller's org.

    Queries without an org must not see any rows.
    """
    yield from evidence.history.leaks
    yield from evidence.unnamed_sees


def nothing_stuck(evidence: Evidence) -> Violations:
    """Check that every plan and run ends after the faults have ended."""
    rows = evidence.rows
    if not evidence.was_drained:
        yield "the agents did not complete all plans and runs in time after the last fault"
    for plan_id, status in rows.plans.items():
        if status not in OVER:
            yield f"plan {plan_id} is still {status}"
    for run_id, is_complete in rows.runs.items():
        if not is_complete:
            yield f"run {run_id} is not complete"


def no_hung_call(evidence: Evidence) -> Violations:
    """Check that each request is answered, or its connection closed, before the deadline."""
    for hung in evidence.history.hung:
        request = f"{hung.tool} on {hung.server}, sent at {hung.sent:.3f}"
        yield f"{request}: no answer in {hung.seconds:.1f} s"


def few_internal_errors(evidence: Evidence) -> Violations:
    lines = evidence.internal_errors
    if len(lines) > MAX_INTERNAL_ERRORS:
        yield f"{len(lines)} internal errors, at most {MAX_INTERNAL_ERRORS}; the first: {lines[0]}"


def describe(call: Call) -> str:
    who = f"{call.org}/{call.user}/{call.session}"
    return f"{call.tool} {call.key or ''} by {who} at {call.sent:.3f}"


def _claims(history: History) -> Iterable[Call]:
    """Yield the acknowledged calls by which an agent got a step or job."""
    ready = {"step_ready", "job_ready"}
    for call in history.of("get_next_step", "get_next_job", "submit_user_decision"):
        if call.reply.get("status") in ready or "attempt" in call.reply:
            yield call


def _work_of(call: Call) -> tuple[str, int]:
    """Return the id and the attempt of the step or job in the reply of a claim."""
    return str(call.reply.get("stepId") or call.reply["jobId"]), call.reply["attempt"]


def _audited_work(entry: Entry) -> str:
    """Return the id of the step or job in an audit entry, in the form that replies use."""
    return str(entry.details.get("stepId") or entry.details["jobId"])


CHECKERS: Final[tuple[Callable[[Evidence], Violations], ...]] = (
    acknowledged_effects,
    single_effect_per_key,
    single_holder,
    no_stale_result,
    audit_is_sealed,
    replay_equals_rows,
    counts_never_fall,
    fan_in_is_exact,
    tenants_apart,
    nothing_stuck,
    no_hung_call,
    few_internal_errors,
)


def check(evidence: Evidence) -> list[Violation]:
    return [
        Violation(checker.__name__, message)
        for checker in CHECKERS
        for message in checker(evidence)
    ]
