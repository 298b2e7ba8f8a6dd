"""Checkers of the fault harness, which decide whether a test run was correct."""

from dataclasses import replace

import pytest

from faults.checkers import CHECKERS, Evidence, check
from faults.cluster import ROOT
from faults.history import Body, Call, History, Hung, Outcome
from faults.planted import BUGS, PACKAGE, Bug, edited
from faults.rows import Entry, Job, Rows, StageStep, Step

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


def test_history_checker_accepts_a_valid_history_of_calls() -> None:
    assert caught(evidence(make_claim(), rows=started())) == set()


def test_every_guaranteed_property_has_a_history_checker() -> None:
    assert len({checker.__name__ for checker in CHECKERS}) == 12


def test_history_checker_reports_a_successful_call_without_effect() -> None:
    assert caught(evidence(make_call("create_research_plan"))) == {"acknowledged_effects"}


def test_history_checker_reports_a_successful_claim_without_audit_entry() -> None:
    assert caught(evidence(make_claim())) == {"acknowledged_effects"}


def test_history_checker_reports_an_idempotency_key_with_two_effects() -> None:
    rows = Rows()
    rows.effects["create_research_plan", KEY] = 2
    assert caught(evidence(make_call("create_research_plan"), rows=rows)) == {
        "single_effect_per_key"
    }


def test_history_checker_accepts_an_unanswered_call_with_one_effect() -> None:
    rows = Rows()
    rows.effects["create_research_plan", KEY] = 1
    unknown = make_call("create_research_plan", outcome=Outcome.UNKNOWN)
    assert caught(evidence(unknown, rows=rows)) == set()


def test_history_checker_reports_a_refused_call_that_had_an_effect() -> None:
    rows = Rows()
    rows.effects["submit_step_result", KEY] = 1
    refused = make_call("submit_step_result", outcome=Outcome.REFUSED, code="INVALID_TRANSITION")
    assert caught(evidence(refused, rows=rows)) == {"single_effect_per_key"}


def test_history_checker_reports_a_successful_call_without_stored_answer() -> None:
    run_evidence = evidence(make_claim(), rows=started())
    run_evidence.rows.answers.clear()
    assert caught(run_evidence) == {"single_effect_per_key"}


@pytest.mark.parametrize(("user", "session"), [("bob", "main"), ("ann", "side")])
def test_history_checker_reports_an_attempt_claimed_by_two_holders(user: str, session: str) -> None:
    run_evidence = evidence(make_claim(), make_claim(user, session), rows=started())
    assert caught(run_evidence) == {"single_holder"}


def test_history_checker_accepts_attempt_returned_twice_to_same_holder() -> None:
    assert caught(evidence(make_claim(), make_claim(), rows=started())) == set()


def test_history_checker_reports_a_holder_with_two_claimed_steps() -> None:
    rows = Rows(
        audit=[
            make_entry(1, "step_started", held(STEP), stepId=STEP, attempt=1),
            make_entry(2, "step_started", held(OTHER), stepId=OTHER, attempt=1),
        ]
    )
    assert caught(evidence(rows=rows)) == {"single_holder"}


def make_job_claim(user: str, attempt: int, at: float) -> Call:
    reply = {"status": "job_ready", "jobId": JOB, "attempt": attempt, "leaseSeconds": 6}
    return make_call("get_next_job", user=user, reply=reply, sent=at, received=at + 0.1)


def jobs_started() -> Rows:
    entries = [make_entry(n, "step_started", jobId=JOB, attempt=n) for n in (1, 2)]
    return Rows(audit=[replace(entry, actor=f"user-{entry.seq}") for entry in entries])


@pytest.mark.parametrize(("at", "expected"), [(1.0, {"single_holder"}), (7.0, set[str]())])
def test_history_checker_reports_a_job_taken_over_within_the_lease(
    at: float, expected: set[str]
) -> None:
    run_evidence = evidence(
        make_job_claim("ann", 1, 0.0), make_job_claim("bob", 2, at), rows=jobs_started()
    )
    assert caught(run_evidence) == expected


def test_history_checker_accepts_a_job_taken_over_after_fail_job() -> None:
    fail_call = make_call("fail_job", args={"jobId": JOB, "attempt": 1})
    rows = jobs_started()
    rows.effects["fail_job", KEY] = 1
    claims = make_job_claim("ann", 1, 0.0), make_job_claim("bob", 2, 1.0)
    assert caught(evidence(*claims, fail_call, rows=rows)) == set()


def test_history_checker_reports_accepted_result_of_older_attempt() -> None:
    rows = Rows(audit=[make_entry(1, "step_completed", stepId=STEP, attempt=2)])
    rows.effects["submit_step_result", KEY] = 1
    reply = {"planId": PLAN, "progress": {"done": 1}}
    late = make_call("submit_step_result", args={"stepId": STEP, "attempt": 1}, reply=reply)
    assert caught(evidence(late, rows=rows)) == {"no_stale_result"}


def test_history_checker_reports_a_gap_in_the_audit_numbers() -> None:
    rows = Rows(audit=[make_entry(1, "plan_modified"), make_entry(3, "plan_modified")])
    assert caught(evidence(rows=rows)) == {"audit_is_sealed"}


def test_history_checker_reports_an_audit_with_a_broken_hash_chain() -> None:
    assert caught(evidence(rows=Rows(broken_chains=["entry 2"]))) == {"audit_is_sealed"}


def test_history_checker_reports_rows_that_differ_from_audit_replay() -> None:
    rows = Rows(replay_differences=["step.status"])
    assert caught(evidence(rows=rows)) == {"replay_equals_rows"}


def make_look(done: int, sent: float, received: float, **more: object) -> Call:
    reply = {"planId": PLAN, "counts": {"done": done}, **more}
    times = {"answered_sent": sent, "received": received}
    return make_call("get_plan_status", key=None, reply=reply, **times)


def test_history_checker_reports_a_decreasing_number_of_done_steps() -> None:
    run_evidence = evidence(make_look(3, 0.0, 1.0), make_look(2, 2.0, 3.0))
    assert caught(run_evidence) == {"counts_never_fall"}


def test_history_checker_accepts_older_done_count_in_concurrent_call() -> None:
    assert caught(evidence(make_look(3, 0.0, 2.0), make_look(2, 1.0, 3.0))) == set()


def test_history_checker_accepts_older_done_count_in_replayed_answer() -> None:
    replayed = make_look(2, 2.0, 3.0, replayed=True)
    assert caught(evidence(make_look(3, 0.0, 1.0), replayed)) == set()


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


def test_history_checker_accepts_step_opened_after_last_predecessor_job() -> None:
    assert caught(evidence(rows=make_run(1, 3, 2, closed=3, join_opened=3))) == set()


@pytest.mark.parametrize(
    "rows",
    [
        make_run(1, None, closed=1, join_opened=1),
        make_run(1, 3, closed=2, join_opened=2),
        make_run(1, 3, closed=3, join_opened=None),
        make_run(1, 3, closed=None, join_opened=None),
        make_run(1, 3, closed=3, join_opened=2),
    ],
    ids=["early", "closed-early", "never-opened", "never-closed", "opened-early"],
)
def test_history_checker_reports_step_opened_or_closed_too_early(rows: Rows) -> None:
    assert caught(evidence(rows=rows)) == {"fan_in_is_exact"}


def test_history_checker_reports_a_step_started_before_the_dependency() -> None:
    begun = [make_change(STEP, "status", "in_progress")]
    rows = Rows(
        audit=[
            make_entry(1, "plan_modified", begun),
            make_entry(2, "step_started", held(OTHER), stepId=OTHER, attempt=1),
        ]
    )
    rows.steps[OTHER] = Step(plan_id=PLAN, status="pending", attempt=1, depends_on=(STEP,))
    assert caught(evidence(rows=rows)) == {"fan_in_is_exact"}


def test_history_checker_reports_a_reply_with_text_of_another_org() -> None:
    run_evidence = evidence()
    run_evidence.history.inspect("alder", "this is canary-b of others")
    assert caught(run_evidence) == {"tenants_apart"}


def test_history_checker_reports_a_reply_with_id_of_another_org() -> None:
    run_evidence, known = evidence(), "01a1e2e2-c18b-751b-a970-74bef0bbdbca"
    run_evidence.history.inspect("alder", known)
    run_evidence.history.inspect("alder", known)
    assert caught(run_evidence) == set()
    run_evidence.history.inspect("birch", known, sent=known)
    assert not run_evidence.history.leaks
    run_evidence.history.inspect("birch", known)
    assert caught(run_evidence) == {"tenants_apart"}


def test_history_checker_reports_rows_visible_without_an_org_setting() -> None:
    assert caught(evidence(unnamed_sees=("3 plans",))) == {"tenants_apart"}


@pytest.mark.parametrize(
    "found",
    [
        evidence(rows=Rows(plans={PLAN: "executing"})),
        evidence(rows=Rows(runs={RUN: False}), before={}),
        evidence(was_drained=False),
    ],
    ids=["plan", "run", "drain"],
)
def test_history_checker_reports_unfinished_work_after_recovery(found: Evidence) -> None:
    assert "nothing_stuck" in caught(found)


def test_history_checker_reports_a_call_that_hangs() -> None:
    run_evidence = evidence()
    run_evidence.history.hung.append(Hung("ping", "direct", 0.0, 30.0))
    assert caught(run_evidence) == {"no_hung_call"}


@pytest.mark.parametrize(("errors", "expected"), [(5, set[str]()), (6, {"few_internal_errors"})])
def test_history_checker_reports_more_than_five_internal_errors(
    errors: int, expected: set[str]
) -> None:
    assert caught(evidence(internal_errors=("Traceback",) * errors)) == expected


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_source_code_with_each_planted_bug_compiles(bug: Bug) -> None:
    texts = edited(bug, ROOT / PACKAGE)
    assert texts
    for file, text in texts.items():
        compile(text, file, "exec")


def test_history_checker_finds_the_id_of_a_foreign_plan_in_nested_json() -> None:
    history = History({"alder": "canary-a", "birch": "canary-b"})
    reply = r'{"text": "{\"planId\":\"222222222222\"}"}'
    history.inspect("alder", reply)
    assert history.leaks == []
    history.inspect("birch", reply)
    assert history.leaks == ["a reply to birch contains the id 222222222222 of alder"]


def test_history_checker_matches_a_claim_to_audit_by_step_id() -> None:
    step_id = "222222222222"
    reply = {"status": "step_ready", "stepId": "222222222222", "attempt": 1}
    claim = make_call("get_next_step", reply=reply)
    rows = Rows(audit=[make_entry(1, "step_started", stepId=step_id, attempt=1)])
    assert "acknowledged_effects" not in caught(evidence(claim, rows=rows))
    rows = Rows(audit=[make_entry(1, "step_started", stepId=step_id, attempt=2)])
    assert "acknowledged_effects" in caught(evidence(claim, rows=rows))
