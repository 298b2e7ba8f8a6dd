"""Copied plans: new ids, results up to a certain step, and pending steps after it."""

from collections.abc import Mapping

import pytest

from plan_builders import ANN, BOB, NOON, make_context, make_new_plan, make_new_step
from plan_invariants import check_state
from waybook.core.changes import Change, Row, Rows, replay
from waybook.errors import NotModifiable
from waybook.plan.copy import CopiedPlan, copy_plan
from waybook.plan.create import create
from waybook.plan.draft import Decision
from waybook.plan.model import BranchAction, NewCondition, Plan, PlanStatus, StepStatus
from waybook.plan.next_step import next_step
from waybook.plan.submit import Submission, submit


class History:
    """Plan under test, with the changes in each of its audit entries."""

    def __init__(self) -> None:
        adds = NewCondition(
            expression="confidence < 0.5",
            action=BranchAction.ADD_STEPS,
            after_step_order=2,
            steps=(make_new_step("Check again."),),
        )
        skips = NewCondition(
            expression="result == 'skip'",
            action=BranchAction.SKIP_TO,
            after_step_order=1,
            target_step_order=4,
        )
        steps = [make_new_step(f"Step {n}.", title=f"T{n}") for n in range(1, 4)]
        last = make_new_step("Step 4.", depends_on=(1, 3), result_schema={"type": "string"})
        self.entries: list[tuple[Change, ...]] = []
        new = make_new_plan(*steps, last, conditions=(adds, skips))
        self.plan: Plan = self.keep(create(new, make_context(ANN)))

    def keep(self, decision: Decision[object]) -> Plan:
        self.entries += [entry.changes for entry in decision.entries]
        self.plan = decision.plan
        return decision.plan

    def work(self, order: int, confidence: float = 0.9) -> None:
        self.keep(next_step(self.plan, make_context(ANN)))
        step = self.plan.steps[order - 1]
        result = Submission(result_summary=f"result {order}", confidence=confidence)
        self.keep(submit(self.plan, step.id, result, make_context(ANN)))

    def rows(self, seq: int | None = None) -> Rows:
        """Return the plan's rows as of the audit entry `seq`, by default the current rows."""
        return replay(change for entry in self.entries[:seq] for change in entry)

    def copied(
        self,
        seq: int | None = None,
        up_to: int | None = None,
        name: str | None = None,
    ) -> Decision[Plan]:
        last = seq or len(self.entries)
        source = CopiedPlan(id=self.plan.id, seq=last, rows=self.rows(seq), up_to_step=up_to)
        return copy_plan(source, make_context(BOB, minutes=60), name=name)


def rows_of(decision: Decision[object]) -> Rows:
    return replay(change for entry in decision.entries for change in entry.changes)


def by_order(rows: Mapping[str, Row]) -> list[Row]:
    return sorted(rows.values(), key=lambda row: int(str(row["order"])))


def test_plan_copy_without_up_to_argument_has_all_completed_results() -> None:
    history = History()
    history.work(1)
    made = history.copied()
    check_state(made.plan)
    assert made.plan.status is PlanStatus.EXECUTING
    assert made.plan.name == "Rivers (copy)"
    assert (made.plan.copied_from, made.plan.copied_seq) == (history.plan.id, len(history.entries))
    first, *others = made.plan.steps
    assert (first.status, first.copied_from) == (StepStatus.COMPLETED, history.plan.steps[0].id)
    assert (first.held_by, first.held_session) == ("ann", None)
    assert [(s.status, s.attempt, s.copied_from) for s in others] == [
        (StepStatus.PENDING, 1, original.id) for original in history.plan.steps[1:]
    ]
    assert [step.is_carried_over for step in made.plan.steps] == [True, False, False, False]
    results = [row.get("result_summary") for row in by_order(rows_of(made)["step"])]
    assert results == ["result 1", None, None, None]


def test_plan_copy_has_new_ids_of_steps_and_conditions() -> None:
    history = History()
    made = history.copied(up_to=0)
    old, new = history.rows(), rows_of(made)
    ids = {str(a["order"]): key for key, a in old["step"].items()}
    fresh = {str(a["order"]): key for key, a in new["step"].items()}
    assert set(ids.values()).isdisjoint(fresh.values())
    assert set(old["condition"]).isdisjoint(new["condition"])
    last = made.plan.steps[3]
    assert last.depends_on == (made.plan.steps[0].id, made.plan.steps[2].id)
    targets = [row["target_step_id"] for row in new["condition"].values()]
    assert targets == [None, last.id]
    assert [row["step_id"] for row in new["condition"].values()] == [fresh["2"], fresh["1"]]


def test_plan_copy_before_a_fired_condition_omits_the_condition() -> None:
    history = History()
    history.work(1)
    history.work(2, confidence=0.1)
    assert len(history.plan.steps) == 5
    kept = rows_of(history.copied(up_to=2))["condition"]
    assert sorted(str(row["outcome"]) for row in kept.values()) == ["fired", "not_fired"]
    again = rows_of(history.copied(up_to=1))["condition"]
    assert [(row["action"], row["outcome"]) for row in again.values()] == [("skip_to", "not_fired")]


def test_plan_copy_at_audit_entry_equals_plan_at_that_entry() -> None:
    history = History()
    history.work(1)
    before = len(history.entries)
    history.work(2, confidence=0.1)
    made = history.copied(seq=before)
    assert [step.title for step in made.plan.steps] == ["T1", "T2", "T3", None]
    assert [step.status for step in made.plan.steps].count(StepStatus.COMPLETED) == 1
    outcomes = {row["action"]: row["outcome"] for row in rows_of(made)["condition"].values()}
    assert outcomes == {"add_steps": None, "skip_to": "not_fired"}


def test_name_argument_sets_the_name_of_the_copied_plan() -> None:
    made = History().copied(name="Lakes")
    (row,) = rows_of(made)["plan"].values()
    assert row["name"] == "Lakes"
    assert (row["created_by"], made.plan.created_at) == ("bob", make_context(minutes=60).now)
    assert made.plan.created_at != NOON


def test_copying_a_plan_without_open_steps_is_refused() -> None:
    history = History()
    for order in (1, 2, 3, 4):
        history.work(order)
    with pytest.raises(NotModifiable, match="nothing left to do"):
        history.copied()
    assert len(history.copied(up_to=3).plan.steps) == 4
