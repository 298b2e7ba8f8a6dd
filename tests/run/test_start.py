import pytest

from dag_builders import make_dag, make_stage, make_step
from plan_builders import ANN, NOON
from run_env import MODELS, RUN, RunEnv, make_compiled_dag, make_run, make_stage_run
from waybook.dag.model import Dag
from waybook.errors import (
    InvalidInput,
    InvalidTransition,
    NotAwaitingReview,
    NotFound,
    Refused,
    TooLarge,
)
from waybook.run.model import MAX_MODELS
from waybook.run.start import start_open_stage


def two_stages() -> Dag:
    return make_dag(make_stage("one"), make_stage("two"))


def make_diamond() -> Dag:
    ways = [("top", "left"), ("top", "right"), ("left", "end"), ("right", "end")]
    return make_dag(*map(make_stage, ("top", "left", "right", "end")), transitions=ways)


def next_call_of(refusal: Refused) -> tuple[str, dict[str, object]]:
    """Return the tool and the arguments of the call that an error suggests."""
    assert refusal.next_call is not None
    return refusal.next_call.tool, dict(refusal.next_call.args)


def test_starting_a_run_starts_the_first_stage() -> None:
    world = make_run(two_stages())
    assert world.events() == ["plan_modified", "plan_modified"]
    assert world.details() == [
        {"action": "run_started", "dagSlug": "rivers"},
        {"action": "stage_started", "stageSlug": "one", "models": [*MODELS]},
    ]
    assert list(world.run.stages) == ["one"]
    assert world.stage("one").models == MODELS
    assert world.stage("one").started_at == NOON
    assert world.run.completed_at is None
    assert world.run.seq == 2


def test_audit_of_a_started_run_contains_workflow_and_input() -> None:
    world = make_run(two_stages())
    assert world.records.brief == {
        "name": "Rivers",
        "dag_slug": "rivers",
        "dag_version": 3,
        "input": {"brief": "Go.", "items": ["x", "y", "z"]},
        "completed_at": None,
        "created_at": NOON.isoformat(),
        "created_by": "ann",
    }


def test_model_named_twice_at_the_start_is_used_only_once() -> None:
    world = make_run(two_stages(), ["beta", "alpha", "beta"])
    assert world.stage("one").models == ("beta", "alpha")
    assert [job.model for job in world.jobs("one-work")] == ["beta", "alpha"]


def test_start_run_without_models_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one model"):
        make_run(two_stages(), [])


def test_start_of_a_run_with_too_many_models_is_refused() -> None:
    names = [f"m{number}" for number in range(MAX_MODELS + 1)]
    assert len(make_run(two_stages(), names[:-1]).stage("one").models) == MAX_MODELS
    with pytest.raises(TooLarge, match="21 models") as refusal:
        make_run(two_stages(), names)
    assert refusal.value.details == {"limit": MAX_MODELS}


def test_run_with_only_skipped_steps_completes_at_the_start() -> None:
    world = make_run(
        make_stage_run(make_step("a", skip=True), make_step("b", skip=True), edges=[("a", "b")])
    )
    assert world.run.completed_at == NOON
    assert world.stage("only").completed_at == NOON
    assert world.jobs("a") == world.jobs("b") == []


def test_feedback_starts_the_next_stage_with_the_same_models() -> None:
    world = make_run(two_stages())
    world.work()
    (started,) = world.feedback("one", "Shorter.")
    assert started.slug == "two"
    assert started.models == MODELS
    assert world.events() == ["user_reviewed", "plan_modified"]
    assert world.details() == [
        {"action": "stage_feedback", "stageSlug": "one", "feedback": "Shorter.", "decidedAs": None},
        {"action": "stage_started", "stageSlug": "two", "models": [*MODELS]},
    ]
    fed = world.stage("one")
    assert (fed.feedback, fed.feedback_at, fed.feedback_by) == ("Shorter.", NOON, "pat")


def test_feedback_with_other_models_changes_only_the_next_stage() -> None:
    world = make_run(two_stages())
    world.work()
    (started,) = world.feedback("one", models=["gamma", "gamma"])
    assert started.models == ("gamma",)
    assert world.stage("one").models == MODELS
    assert [job.model for job in world.jobs("two-work")] == ["gamma"]


def test_feedback_with_empty_model_list_reuses_previous_models() -> None:
    world = make_run(two_stages())
    world.work()
    assert world.feedback("one", models=[])[0].models == MODELS


def test_feedback_on_an_unknown_stage_is_refused() -> None:
    with pytest.raises(NotFound, match="no stage 'three'; it has one, two") as refusal:
        make_run(two_stages()).feedback("three")
    assert refusal.value.details == {"stageSlug": "three", "stages": ["one", "two"]}


@pytest.mark.parametrize(("slug", "state"), [("one", "in_progress"), ("two", "not_started")])
def test_feedback_on_an_incomplete_stage_raises_invalid_transition(slug: str, state: str) -> None:
    with pytest.raises(
        InvalidTransition, match="feedback can be given only on a completed stage"
    ) as refusal:
        make_run(two_stages()).feedback(slug)
    assert refusal.value.details == {"from": state, "to": "completed"}
    assert next_call_of(refusal.value) == ("get_next_job", {"runId": RUN})


def test_second_feedback_on_a_stage_raises_not_awaiting_review() -> None:
    world = make_run(two_stages())
    world.work()
    world.feedback("one", "Shorter.")
    with pytest.raises(NotAwaitingReview, match="already has feedback from pat") as refusal:
        world.feedback("one", "Longer.")
    assert refusal.value.details == {
        "stageSlug": "one",
        "decidedBy": "pat",
        "decidedAt": NOON.isoformat(),
        "feedback": "Shorter.",
    }
    assert next_call_of(refusal.value) == ("get_run_progress", {"runId": RUN})


def test_feedback_on_last_stage_is_stored_and_starts_no_stage() -> None:
    world = make_run(make_stage("only"))
    world.work()
    assert world.feedback("only") == ()
    assert world.stage("only").feedback == "Go on."
    assert world.run.completed_at == NOON


def test_feedback_can_be_repeated_after_refusal_for_too_many_models() -> None:
    world = make_run(two_stages())
    world.work()
    with pytest.raises(TooLarge):
        world.feedback("one", models=[f"m{number}" for number in range(MAX_MODELS + 1)])
    assert world.stage("one").feedback is None
    assert world.feedback("one")


def test_feedback_completes_the_run_if_all_remaining_steps_are_skipped() -> None:
    idle = make_stage("two", make_step("rest", skip=True))
    world = make_run(make_dag(make_stage("one"), idle))
    world.work()
    world.feedback("one")
    assert world.run.completed_at == NOON


def through_the_top() -> RunEnv:
    world = make_run(make_diamond())
    world.work()
    assert [stage.slug for stage in world.feedback("top")] == ["left", "right"]
    return world


def test_feedback_on_a_stage_starts_every_direct_successor_stage() -> None:
    assert through_the_top().reached() == ["top-work", "left-work", "right-work"]


@pytest.mark.parametrize(("first", "second"), [("left", "right"), ("right", "left")])
def test_stage_with_two_predecessor_stages_starts_after_feedback_on_both(
    first: str, second: str
) -> None:
    world = through_the_top()
    world.work()
    assert world.feedback(first) == ()
    assert "end" not in world.run.stages
    (started,) = world.feedback(second, models=["gamma"])
    assert (started.slug, started.models) == ("end", ("gamma",))


def test_stage_with_incomplete_second_predecessor_does_not_start() -> None:
    world = through_the_top()
    world.work("left-work")
    assert world.feedback("left") == ()
    assert "end" not in world.run.stages
    with pytest.raises(
        InvalidTransition, match="'right' is in progress; 'end' can start only after it"
    ):
        world.begin("end")


def test_stage_with_two_predecessors_uses_the_documents_of_both() -> None:
    world = through_the_top()
    world.work()
    world.feedback("right")
    world.feedback("left")
    assert tuple(world.stage("end").prior.lineages) == (
        "left/left-work/alpha",
        "left/left-work/beta",
        "right/right-work/alpha",
        "right/right-work/beta",
    )


def test_starting_a_stage_that_has_already_started_changes_nothing() -> None:
    world = make_run(two_stages())
    assert world.begin("one", ["gamma"]) == ()
    assert world.events() == []
    assert world.stage("one").models == MODELS


def test_starting_an_unknown_stage_is_refused() -> None:
    with pytest.raises(NotFound, match="no stage 'three'"):
        make_run(two_stages()).begin("three")


def test_stage_after_an_incomplete_stage_cannot_be_started() -> None:
    with pytest.raises(
        InvalidTransition, match="'one' is in progress; 'two' can start only after"
    ) as refusal:
        make_run(two_stages()).begin("two")
    assert next_call_of(refusal.value) == ("get_next_job", {"runId": RUN})


def test_stage_cannot_be_started_without_feedback_on_the_predecessor() -> None:
    world = make_run(two_stages())
    world.work()
    with pytest.raises(
        InvalidTransition, match="before a person gives feedback on 'one'"
    ) as refusal:
        world.begin("two")
    assert refusal.value.details == {"from": "not_started", "to": "in_progress"}
    assert next_call_of(refusal.value) == (
        "submit_stage_feedback",
        {"runId": RUN, "stageSlug": "one"},
    )


@pytest.mark.parametrize(("requested", "models"), [(None, MODELS), (["gamma"], ("gamma",))])
def test_stage_started_after_feedback_uses_requested_or_previous_models(
    requested: list[str] | None, models: tuple[str, ...]
) -> None:
    world = make_run(two_stages())
    world.work()
    fed = world.stage("one")._replace(feedback="Go on.", feedback_at=NOON, feedback_by="pat")
    run = world.run._replace(stages={"one": fed})
    decided = start_open_stage(
        run, make_compiled_dag(two_stages()), "two", requested, world.moment(ANN)
    )
    (started,) = decided.reply
    assert (started.slug, started.models) == ("two", models)
    assert len(decided.jobs) == len(models)
