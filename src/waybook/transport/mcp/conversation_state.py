"""State of an agent's conversation: its open plan, the steps it holds, and the next call.

Hooks of coding agents read the state after the agent's context was compacted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from waybook.core.short_ids import usual_form
from waybook.json_values import Body, Json

FORMAT: Final = 1
MAX_HELD_STEPS: Final = 8
#: Maximum length of a name or title, which is then cut.
MAX_TEXT_LENGTH: Final = 200
NOT_HELD: Final = frozenset({"STALE_ATTEMPT", "NOT_FOUND", "INVALID_TRANSITION", "PLAN_TERMINAL"})
IN_PROGRESS: Final = "in_progress"
DONE: Final = frozenset({"completed", "skipped"})
SHORTENED: Final = frozenset({"planId", "stepId"})

Reply = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class OpenPlan:
    """The plan that the conversation works on, as far as tool replies described it."""

    plan_id: str
    name: str | None = None
    status: str | None = None
    done: int | None = None
    total: int | None = None
    #: Number of steps that this conversation completed.
    finished: int | None = None


@dataclass(frozen=True, slots=True)
class HeldStep:
    """Step that the conversation claimed and has not submitted."""

    plan_id: str
    step_id: str
    attempt: int
    order: int | None = None
    title: str | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationState:
    """Open plan and held steps of a conversation, and the next call that the server suggests."""

    plan: OpenPlan | None = None
    steps: tuple[HeldStep, ...] = ()
    next_tool: str | None = None
    session: str | None = None

    @property
    def plan_id(self) -> str | None:
        return self.plan.plan_id if self.plan else None

    @property
    def is_empty(self) -> bool:
        return self.plan is None and not self.steps

    def as_json(self) -> Body:
        plan = self.plan
        return {
            "format": FORMAT,
            "plan": None
            if plan is None
            else _known(
                planId=plan.plan_id,
                name=plan.name,
                status=plan.status,
                done=plan.done,
                total=plan.total,
                finished=plan.finished,
            ),
            "steps": [
                _known(
                    planId=step.plan_id,
                    stepId=step.step_id,
                    attempt=step.attempt,
                    order=step.order,
                    title=step.title,
                    sessionId=step.session,
                )
                for step in self.steps
            ],
            "next": self.next_tool,
            "sessionId": self.session,
        }


def state_from_json(value: object) -> ConversationState:
    body = _mapping(value)
    if body.get("format") != FORMAT:
        return ConversationState()
    held = (
        _held(_mapping(step), _id(_mapping(step), "sessionId")) for step in _list(body, "steps")
    )
    return ConversationState(
        plan=_plan(_mapping(body.get("plan"))),
        steps=tuple(step for step in held if step)[:MAX_HELD_STEPS],
        next_tool=_id(body, "next"),
        session=_id(body, "sessionId"),
    )


def observe(
    state: ConversationState, tool: str, arguments: Mapping[str, object], reply: Reply
) -> ConversationState:
    observer = OBSERVERS.get(tool)
    if observer is None:
        return state
    session = _id(arguments, "sessionId") or state.session
    after = observer(replace(state, session=session), arguments, reply)
    return ConversationState() if after.is_empty else after


def observe_error(
    state: ConversationState, arguments: Mapping[str, object], code: str | None
) -> ConversationState:
    """Return the state after a failed call. The error may show that a step is no longer held."""
    if code not in NOT_HELD:
        return state
    step_id, plan_id = _id(arguments, "stepId"), _id(arguments, "planId")
    if step_id is not None:
        return _without(state, step_id)
    if code == "NOT_FOUND" and plan_id is not None and state.plan_id == plan_id:
        return _closed(state, plan_id)
    return state


def _created(state: ConversationState, _: Reply, reply: Reply) -> ConversationState:
    plan_id = _id(reply, "planId")
    if plan_id is None:
        return state
    total = len(_list(reply, "stepIds"))
    plan = OpenPlan(plan_id, _text(reply, "name"), _id(reply, "status"), 0, total)
    return replace(state, plan=plan, next_tool=_next_tool(reply))


def _claimed(state: ConversationState, arguments: Reply, reply: Reply) -> ConversationState:
    plan_id = _id(reply, "planId") or _id(arguments, "planId")
    if plan_id is None:
        return state
    match reply.get("status"):
        case "step_ready":
            step = _held({**reply, "planId": plan_id}, _id(arguments, "sessionId"))
            current = _with_plan(state, plan_id, "executing", reply)
            return current if step is None else _holding(current, step)
        case "plan_failed":
            return _closed(state, plan_id)
        case "plan_complete":
            done = _with_plan(_closed(state, plan_id), plan_id, "completed", reply)
            # A completed plan stays in the state until its output is stored.
            return done if done.next_tool != "list_active_plans" else _closed(done, plan_id)
        case "awaiting_review":
            review = _mapping(reply.get("review"))
            rest = _without(state, _id(review, "stepId"))
            return _with_plan(rest, plan_id, "awaiting_review", reply)
        case _:
            return _with_plan(state, plan_id, _id(reply, "status"), reply)


def _moved(state: ConversationState, arguments: Reply, reply: Reply) -> ConversationState:
    """Return the state after a call that ends the work on a step, such as a submitted result."""
    if "submitted" in reply:  # With `takeNext`, the rest of the reply is about the next step.
        rest = _without(state, _id(arguments, "stepId"))
        outcome = _mapping(reply["submitted"])
        return _counted(_claimed(rest, arguments, {**outcome, **reply}), outcome)
    plan_id = _id(reply, "planId")
    if plan_id is None:
        return state
    status = _id(reply, "planStatus")
    rest = _without(state, _id(reply, "stepId"))
    if status == "failed":
        return _closed(rest, plan_id)
    return _counted(_with_plan(rest, plan_id, status, reply), reply)


def _counted(state: ConversationState, outcome: Reply) -> ConversationState:
    if state.plan is None or outcome.get("stepStatus") not in DONE:
        return state
    return replace(state, plan=replace(state.plan, finished=(state.plan.finished or 0) + 1))


def _modified(state: ConversationState, _: Reply, reply: Reply) -> ConversationState:
    plan_id = _id(reply, "planId")
    if plan_id is None or reply.get("dryRun"):
        return state
    current = _with_plan(state, plan_id, _id(reply, "planStatus"), reply)
    if "cut" in reply:
        return current
    return _confirmed(current, plan_id, _list(reply, "steps"))


def _read(state: ConversationState, _: Reply, reply: Reply) -> ConversationState:
    plan_id = _id(reply, "planId")
    if plan_id is None or state.plan_id != plan_id:
        return state
    current = _resumed(state, {}, reply)
    return current if "cut" in reply else _confirmed(current, plan_id, _list(reply, "activeSteps"))


def _resumed(state: ConversationState, _: Reply, reply: Reply) -> ConversationState:
    plan_id, status = _id(reply, "planId"), _id(reply, "status")
    if plan_id is None or status is None:
        return state
    if status in {"completed", "failed"}:
        return _closed(state, plan_id)
    return _with_plan(state, plan_id, status, reply)


def _stored(state: ConversationState, arguments: Reply, reply: Reply) -> ConversationState:
    """Update the state after an output was stored. A completed plan is removed."""
    plan_id = _id(reply, "planId") or _id(arguments, "planId")
    match state.plan:
        case OpenPlan(plan_id=open_id, status="completed") if open_id == plan_id:
            return _closed(state, open_id)
    return state


Observer = Callable[[ConversationState, Mapping[str, object], Reply], ConversationState]

OBSERVERS: Final[Mapping[str, Observer]] = {
    "create_research_plan": _created,
    "get_next_step": _claimed,
    "submit_step_result": _moved,
    "request_user_review": _moved,
    "submit_user_decision": _moved,
    "modify_plan": _modified,
    "get_plan_status": _read,
    "get_research_context": _resumed,
    "store_research_output": _stored,
}


def _with_plan(
    state: ConversationState, plan_id: str, status: str | None, reply: Reply
) -> ConversationState:
    known = state.plan if state.plan and state.plan_id == plan_id else OpenPlan(plan_id)
    counts = _mapping(reply.get("counts") or reply.get("progress"))
    done, total = _number(counts, "done"), _number(counts, "total")
    plan = OpenPlan(
        plan_id,
        _text(reply, "name") or known.name,
        status or known.status,
        known.done if done is None else done,
        known.total if total is None else total,
        known.finished,
    )
    return replace(state, plan=plan, next_tool=_next_tool(reply))


def _holding(state: ConversationState, step: HeldStep) -> ConversationState:
    others = tuple(held for held in state.steps if held.step_id != step.step_id)
    return replace(state, steps=(*others, step)[-MAX_HELD_STEPS:])


def _without(state: ConversationState, step_id: str | None) -> ConversationState:
    return replace(state, steps=tuple(held for held in state.steps if held.step_id != step_id))


def _closed(state: ConversationState, plan_id: str) -> ConversationState:
    steps = tuple(held for held in state.steps if held.plan_id != plan_id)
    if state.plan_id != plan_id:
        return replace(state, steps=steps)
    return replace(state, plan=None, steps=steps, next_tool=None)


def _confirmed(state: ConversationState, plan_id: str, steps: list[object]) -> ConversationState:
    running = {
        (_id(step, "stepId"), _number(step, "attempt"))
        for step in map(_mapping, steps)
        if step.get("status") == IN_PROGRESS
    }
    remaining = (
        held
        for held in state.steps
        if held.plan_id != plan_id or (held.step_id, held.attempt) in running
    )
    return replace(state, steps=tuple(remaining))


def _plan(body: Mapping[str, object]) -> OpenPlan | None:
    plan_id = _id(body, "planId")
    if plan_id is None:
        return None
    done, total = _number(body, "done"), _number(body, "total")
    finished = _number(body, "finished")
    return OpenPlan(plan_id, _text(body, "name"), _id(body, "status"), done, total, finished)


def _held(body: Mapping[str, object], session: str | None) -> HeldStep | None:
    plan_id, step_id = _id(body, "planId"), _id(body, "stepId")
    attempt = _number(body, "attempt")
    if plan_id is None or step_id is None or attempt is None:
        return None
    order = _number(body, "stepOrder")
    order = _number(body, "order") if order is None else order
    return HeldStep(plan_id, step_id, attempt, order, _text(body, "title"), session)


def _next_tool(reply: Reply) -> str | None:
    return _id(_mapping(reply.get("next")), "tool")


def _known(**fields: Json) -> Body:
    return {name: value for name, value in fields.items() if value is not None}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(body: Mapping[str, object], name: str) -> list[object]:
    value = body.get(name)
    return value if isinstance(value, list) else []


def _text(body: Mapping[str, object], name: str) -> str | None:
    value = body.get(name)
    return value[:MAX_TEXT_LENGTH] if isinstance(value, str) and value else None


def _id(body: Mapping[str, object], name: str) -> str | None:
    """Return an id or another short text. Full ids become short ids."""
    value = body.get(name)
    if not isinstance(value, str) or len(value) > MAX_TEXT_LENGTH or not value.strip():
        return None
    return usual_form(value) if name in SHORTENED else value


def _number(body: Mapping[str, object], name: str) -> int | None:
    value = body.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
