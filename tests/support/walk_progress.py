"""Naive agents that follow only the replies of the plan rules, tested in every plan state.

An agent asks for its next step and submits a result for it. If only a person may complete the step,
the agent requests a review instead. If a step awaits a review, a person approves it. If no step is
available, time passes. All other agents make no calls.
"""

from plan_shapes import Shape
from plan_state_space import (
    State,
    Walk,
    known_names,
    later,
    moments_of,
    plan_of,
    state_of,
    with_heartbeats,
)
from waybook.core.decision_context import DecisionContext, ReviewPolicy
from waybook.plan.draft import Decision
from waybook.plan.model import CLOSED_PLAN, DecisionKind, Plan, PlanStatus, Step, StepType
from waybook.plan.next_step import StepReady, next_step
from waybook.plan.progress import DEFAULT_STALL_THRESHOLD
from waybook.plan.review import ReviewRequest, decide, request_review
from waybook.plan.submit import Submission, submit

#: Maximum number of turns of an agent, which is more than any of these plans needs.
MAX_TURNS = 100


def stuck_states(walked: Walk) -> tuple[list[State], int]:
    """Return the states from which a naive agent never ends the plan, and the most turns needed.

    From each state with an open plan, Ann is tried alone, then Bob.
    """
    stuck: list[State] = []
    most = 0
    ann, bob, pat = moments_of(walked.shape)
    for agent in (ann, bob):
        turns: dict[State, int] = {}
        for state in walked.states:
            if state.status in CLOSED_PLAN:
                continue
            count = _turns_to_end(walked.shape, state, (agent, pat), turns)
            if count is None:
                stuck.append(state)
            else:
                most = max(most, count)
    return stuck, most


def _turns_to_end(
    shape: Shape,
    state: State,
    contexts: tuple[DecisionContext, DecisionContext],
    turns: dict[State, int],
) -> int | None:
    """Return the number of turns that the agent needs to end the plan; None if it cannot."""
    known, path = known_names(shape), [state]
    while path[-1].status not in CLOSED_PLAN and path[-1] not in turns:
        if len(path) > MAX_TURNS:
            return None
        plan = _turn(shape, plan_of(path[-1]), *contexts)
        path.append(state_of(plan, known))
    count = turns.get(path[-1], 0)
    for place, passed in enumerate(reversed(path[:-1]), start=1):
        turns[passed] = count + place
    return turns.get(state, 0)


def _turn(shape: Shape, plan: Plan, agent: DecisionContext, person: DecisionContext) -> Plan:
    """Return the plan after one turn of the agent: a claim and a result, or a review."""
    taken = next_step(plan, agent)
    plan = with_heartbeats(taken)
    match taken.reply:
        case StepReady(step):
            if _needs_review(shape, step) and plan.status is PlanStatus.AWAITING_REVIEW:
                # This step needs a review, but a plan has at most one open review, so decide the
                # other review first.
                return decide(plan, DecisionKind.APPROVE, person).plan
            return with_heartbeats(_work(shape, plan, agent, step))
        case PlanStatus.AWAITING_REVIEW:
            return decide(plan, DecisionKind.APPROVE, person).plan
        case PlanStatus.EXECUTING:
            return later(plan)
        case _:
            return plan


def _work(shape: Shape, plan: Plan, agent: DecisionContext, step: Step) -> Decision[object]:
    """Submit a result for the step, or request a review if only a person may complete it."""
    if _needs_review(shape, step):
        request = ReviewRequest(summary="Is this right?", attempt=step.attempt)
        return request_review(plan, step.id, request, agent)
    result = shape.results_of(step.id)[0]
    done = Submission(result_summary=result, attempt=step.attempt)
    return submit(plan, step.id, done, agent, DEFAULT_STALL_THRESHOLD)


def _needs_review(shape: Shape, step: Step) -> bool:
    return step.type is StepType.CHECKPOINT and shape.policy is ReviewPolicy.HUMAN
