"""Checkers of the fault harness, which decide whether a test run was correct."""

from collections import Counter
from dataclasses import replace

import pytest

from citus.tasks import FREQUENT, SKIP, UNROUTED
from faults.checkers import CHECKERS, Evidence, check
from faults.cluster import ROOT
from faults.history import Body, Call, History, Hung, Outcome
from faults.planted import BUGS, PACKAGE, Bug, edited
from faults.rows import Entry, Job, Rows, StageStep, Step
from tools.schema_check.check import query_texts

PLAN, STEP, OTHER, RUN, JOB = "plan-1", "step-1", "step-2", "run-1", "job-1"
KEY = "k-0000001"
BEFORE = {"each": (), "join": ("each",)}


def make_call(tool: str, **values: object) -> Call:
    call = Call(org="alder", user="ann", session="main", tool=tool, args={}, key=KEY)
    call.outcome = Outcome.ACKNOWLEDGED
    for name, value in values.items():
        setattr(call, name, value)
    return call


def make_claim(
    user: str = "ann", session: str = "main", attempt: int = 1, **values: object
) -> Call:
    reply = {"status": "step_ready", "stepId": STEP, "attempt": attempt}
    return make_call("get_next_step", user=user, session=session, reply=reply, **values)


def make_entry(seq: int, event: str, changes: list[Body] | None = None, **details: object) -> Entry:
    return Entry(
        subject_id=PLAN,
        seq=seq,
        event=event,
        actor="ann",
        session="main",
        details={"changes": changes or [], **details},
    )


def make_change(work: str, field: str, to: object) -> Body:
    return {"entity": "step", "id": work, "field": field, "from": None, "to": to}


def held(work: str) -> list[Body]:
    return [
        make_change(work, "status", "in_progress"),
        make_change(work, "held_by", "ann"),
        make_change(work, "held_session", "main"),
    ]


def evidence(*calls: Call, rows: Rows | None = None, **more: object) -> Evidence:
    history = History({"alder": "canary-a", "birch": "canary-b"})
    for call in calls:
        history.add(call)
    rows = rows or Rows()
    rows.answers |= {(call.tool, call.key or "") for call in calls}
    made = Evidence(history=history, rows=rows, before=BEFORE)
    return replace(made, **more)  # type: ignore[arg-type]  # names are Evidence's own


def caught(run_evidence: Evidence) -> set[str]:
    return {violation.checker for violation in check(run_evidence)}


def started() -> Rows:
    return Rows(audit=[make_entry(1, "step_started", stepId=STEP, attempt=1)])


def make_job_claim(user: str, attempt: int, at: float) -> Call:
    reply = {"status": "job_ready", "jobId": JOB, "attempt": attempt, "leaseSeconds": 6}
    return make_call("get_next_job", user=user, reply=reply, sent=at, received=at + 0.1)


def jobs_started() -> Rows:
    entries = [make_entry(n, "step_started", jobId=JOB, attempt=n) for n in (1, 2)]
    return Rows(audit=[replace(entry, actor=f"user-{entry.seq}") for entry in entries])


def make_look(done: int, sent: float, received: float, **more: object) -> Call:
    reply = {"planId": PLAN, "counts": {"done": done}, **more}
    times = {"answered_sent": sent, "received": received}
    return make_call("get_plan_status", key=None, reply=reply, **times)


def make_run(*ended: int | None, closed: int | None, join_opened: int | None) -> Rows:
    """Return the rows of a run whose jobs ended at these times; None for a job in progress."""
    rows = Rows(runs={RUN: True})
    for number, at in enumerate(ended):
        status = "processing" if at is None else "completed"
        values = {"run_id": RUN, "step_key": "each", "status": status, "attempt": 1}
        rows.jobs[f"job-{number}"] = Job(**values, completed_at=at)  # type: ignore[arg-type]
    done = sum(at is not None for at in ended)
    rows.stage_steps[RUN, "each"] = StageStep(total=len(ended), done=done, closed_at=closed)
    if join_opened is not None:
        rows.jobs["job-join"] = Job(run_id=RUN, step_key="join", status="pending", attempt=0)
        rows.stage_steps[RUN, "join"] = StageStep(total=1, done=0, opened_at=join_opened)
    return rows


def effects(tool: str, count: int = 1, **more: object) -> Rows:
    """Return rows in which the call of this tool took effect this many times."""
    return replace(Rows(effects=Counter({(tool, KEY): count})), **more)  # type: ignore[arg-type]  # names are Rows' own


CREATED = make_call("create_research_plan")
REFUSED = make_call("submit_step_result", outcome=Outcome.REFUSED, code="INVALID_TRANSITION")
FAILED = make_call("fail_job", args={"jobId": JOB, "attempt": 1})
LATE = make_call(
    "submit_step_result",
    args={"stepId": STEP, "attempt": 1},
    reply={"planId": PLAN, "progress": {"done": 1}},
)
TWO_HELD = [
    make_entry(1, "step_started", held(STEP), stepId=STEP, attempt=1),
    make_entry(2, "step_started", held(OTHER), stepId=OTHER, attempt=1),
]
STARTED_EARLY = Rows(
    audit=[
        make_entry(1, "plan_modified", [make_change(STEP, "status", "in_progress")]),
        make_entry(2, "step_started", held(OTHER), stepId=OTHER, attempt=1),
    ],
    steps={OTHER: Step(plan_id=PLAN, status="pending", attempt=1, depends_on=(STEP,))},
)
GAP = [make_entry(1, "plan_modified"), make_entry(3, "plan_modified")]
OLDER = [make_entry(1, "step_completed", stepId=STEP, attempt=2)]

#: Forbidden histories, each with its name and the checker that must report it.
REPORTED = [
    ("a successful call without effect", evidence(CREATED), "acknowledged_effects"),
    ("a claim without an audit entry", evidence(make_claim()), "acknowledged_effects"),
    (
        "a claim of another attempt than in the audit",
        evidence(make_claim(attempt=2), rows=started()),
        "acknowledged_effects",
    ),
    (
        "a key with two effects",
        evidence(CREATED, rows=effects("create_research_plan", 2)),
        "single_effect_per_key",
    ),
    (
        "a refused call that had an effect",
        evidence(REFUSED, rows=effects("submit_step_result")),
        "single_effect_per_key",
    ),
    (
        "an attempt held by two users",
        evidence(make_claim(), make_claim("bob"), rows=started()),
        "single_holder",
    ),
    (
        "an attempt held by two sessions",
        evidence(make_claim(), make_claim(session="side"), rows=started()),
        "single_holder",
    ),
    ("a holder with two steps", evidence(rows=Rows(audit=TWO_HELD)), "single_holder"),
    (
        "a job taken over within the lease",
        evidence(make_job_claim("ann", 1, 0.0), make_job_claim("bob", 2, 1.0), rows=jobs_started()),
        "single_holder",
    ),
    (
        "an accepted result of an older attempt",
        evidence(LATE, rows=effects("submit_step_result", audit=OLDER)),
        "no_stale_result",
    ),
    ("a gap in the audit numbers", evidence(rows=Rows(audit=GAP)), "audit_is_sealed"),
    ("a broken hash chain", evidence(rows=Rows(broken_chains=["entry 2"])), "audit_is_sealed"),
    (
        "rows that differ from the replay",
        evidence(rows=Rows(replay_differences=["step.status"])),
        "replay_equals_rows",
    ),
    (
        "a decreasing number of done steps",
        evidence(make_look(3, 0.0, 1.0), make_look(2, 2.0, 3.0)),
        "counts_never_fall",
    ),
    *(
        (f"a step of a run: {name}", evidence(rows=rows), "fan_in_is_exact")
        for name, rows in {
            "closed before a job ended": make_run(1, None, closed=1, join_opened=1),
            "closed before the last job": make_run(1, 3, closed=2, join_opened=2),
            "never opened": make_run(1, 3, closed=3, join_opened=None),
            "never closed": make_run(1, 3, closed=None, join_opened=None),
            "opened before the last job": make_run(1, 3, closed=3, join_opened=2),
        }.items()
    ),
    ("a step started before its dependency", evidence(rows=STARTED_EARLY), "fan_in_is_exact"),
    ("rows visible without an org", evidence(unnamed_sees=("3 plans",)), "tenants_apart"),
    (
        "an unfinished plan",
        evidence(rows=Rows(plans={PLAN: "executing"})),
        "nothing_stuck",
    ),
    ("an unfinished run", evidence(rows=Rows(runs={RUN: False}), before={}), "nothing_stuck"),
    ("a server that was not drained", evidence(was_drained=False), "nothing_stuck"),
    ("internal errors", evidence(internal_errors=("Traceback",) * 6), "few_internal_errors"),
]


@pytest.mark.parametrize(
    ("found", "checker"), [case[1:] for case in REPORTED], ids=[case[0] for case in REPORTED]
)
def test_history_checker_reports_each_forbidden_history(found: Evidence, checker: str) -> None:
    assert caught(found) == {checker}


ACCEPTED = {
    "a valid history": evidence(make_claim(), rows=started()),
    "an unanswered call with one effect": evidence(
        make_call("create_research_plan", outcome=Outcome.UNKNOWN),
        rows=effects("create_research_plan"),
    ),
    "an attempt returned twice to its holder": evidence(make_claim(), make_claim(), rows=started()),
    "a job taken over after the lease": evidence(
        make_job_claim("ann", 1, 0.0), make_job_claim("bob", 2, 7.0), rows=jobs_started()
    ),
    "a job taken over after it failed": evidence(
        make_job_claim("ann", 1, 0.0),
        make_job_claim("bob", 2, 1.0),
        FAILED,
        rows=effects("fail_job", audit=jobs_started().audit),
    ),
    "an older count in a concurrent call": evidence(make_look(3, 0.0, 2.0), make_look(2, 1.0, 3.0)),
    "an older count in a replayed answer": evidence(
        make_look(3, 0.0, 1.0), make_look(2, 2.0, 3.0, replayed=True)
    ),
    "a step opened after the last job": evidence(rows=make_run(1, 3, 2, closed=3, join_opened=3)),
    "a few internal errors": evidence(internal_errors=("Traceback",) * 5),
}


@pytest.mark.parametrize("found", ACCEPTED.values(), ids=ACCEPTED)
def test_history_checker_accepts_each_allowed_history(found: Evidence) -> None:
    assert caught(found) == set()


def test_queries_named_by_the_citus_harness_exist() -> None:
    assert {*FREQUENT, *SKIP, *UNROUTED} <= query_texts().keys()


def test_there_are_twelve_history_checkers_with_distinct_names() -> None:
    assert len({checker.__name__ for checker in CHECKERS}) == 12


def test_history_checker_reports_a_successful_call_without_stored_answer() -> None:
    run_evidence = evidence(make_claim(), rows=started())
    run_evidence.rows.answers.clear()
    assert caught(run_evidence) == {"single_effect_per_key"}


def test_history_checker_reports_a_call_that_hangs() -> None:
    run_evidence = evidence()
    run_evidence.history.hung.append(Hung("ping", "direct", 0.0, 30.0))
    assert caught(run_evidence) == {"no_hung_call"}


@pytest.mark.parametrize(
    "reply",
    ["01a1e2e2-c18b-751b-a970-74bef0bbdbca", r'{"text": "{\"planId\":\"222222222222\"}"}'],
    ids=["id", "nested JSON"],
)
def test_history_checker_reports_a_reply_with_data_of_another_org(reply: str) -> None:
    for leak in (reply, "this is canary-a of others"):
        run_evidence = evidence()
        for _ in range(2):
            run_evidence.history.inspect("alder", reply)
        run_evidence.history.inspect("birch", reply, sent=reply)
        assert caught(run_evidence) == set()
        run_evidence.history.inspect("birch", leak)
        assert caught(run_evidence) == {"tenants_apart"}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_source_code_with_each_planted_bug_compiles(bug: Bug) -> None:
    texts = edited(bug, ROOT / PACKAGE)
    assert texts
    for file, text in texts.items():
        compile(text, file, "exec")
