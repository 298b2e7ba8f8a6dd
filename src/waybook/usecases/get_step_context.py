"""get_step_context: what a step needs to know."""

import json
from typing import Any

from pydantic import Field

from waybook.plan.model import Plan, Step, StepId
from waybook.plan.states import TERMINAL_STEP
from waybook.record.moment import Json
from waybook.store import plans
from waybook.store.plans import Wanted
from waybook.usecases.arguments import Id, Reading
from waybook.usecases.call import Body, Call, found_plan, known
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import Tool
from waybook.usecases.views import artifact_view, fitted, following, step_view, told

#: How many characters a token is taken for.
CHARACTERS = 4
DEFAULT_TOKENS = 6_000
MOST_ARTIFACTS = 20
#: What the frame around results and texts takes.
FRAME = 1_500


class GetStepContext(Reading):
    step_id: Id
    budget_tokens: int | None = Field(None, ge=500, le=200_000)


async def get_step_context(call: Call, asked: GetStepContext) -> Body:
    """The step, what earlier steps found (nearest first), artifacts; cut to the budget.

    A sign of life: whoever reads up on a step is working on it.
    """
    step_id = known(asked.step_id).lower()
    plan_id = await call.plan_of(step_id)
    wanted = Wanted(plan_id=plan_id, texts=(step_id,))
    statements = (
        plans.SQL["touch_step"](step_id=step_id),
        *plans.look_statements(wanted),
        plans.SQL["step_results"](step_id=step_id),
        plans.artifacts_statement(plan_id, MOST_ARTIFACTS),
    )
    async with call.open(*statements) as opened:
        _, *plan_rows, results, artifacts = opened.found
        loaded = found_plan(plan_rows, wanted, step_id)
        step = loaded.plan.step(StepId(step_id))
        budget = CHARACTERS * (asked.budget_tokens or DEFAULT_TOKENS)
        return await opened.write([], _packet(loaded.plan, step, results, artifacts, budget))


def _packet(
    plan: Plan,
    step: Step,
    results: list[tuple[Any, ...]],
    artifacts: list[tuple[Any, ...]],
    budget: int,
) -> Body:
    head: Body = {
        "planId": plan.id,
        "planName": plan.name,
        **step_view(step, attempt=step.attempt, failReason=step.fail_reason),
        **_fitted_texts(plan, step, results[0][5], budget // 2),
        "artifacts": [artifact_view(row) for row in artifacts],
    }
    left = budget - FRAME - len(json.dumps(head, ensure_ascii=False))
    kept = {StepId(row[0]): row for row in results if row[1] is not None}
    shown = fitted({step_id: row[1] for step_id, row in kept.items()}, budget=max(0, left))
    earlier = [s for s in reversed(plan.steps) if s.id in kept and s.id != step.id]
    return told(
        **head,
        result=shown.get(step.id),
        earlierResults=[{**step_view(s), **shown[s.id]} for s in earlier],
        next=_next(plan, step),
    )


def _fitted_texts(plan: Plan, step: Step, question: str, budget: int) -> Body:
    """Instructions and question, whole if they fit, else cut with a word about it."""
    text = plan.texts[step.id]
    asked = question[: max(200, budget // 4)]
    instructions = text.instructions[: max(400, budget - len(asked))]
    cut = len(text.instructions) - len(instructions) + len(question) - len(asked)
    why = f"{cut:,} characters of the instructions or question were cut"
    return told(
        researchQuestion=asked,
        instructions=instructions,
        resultSchema=text.result_schema,
        requiredSources=text.required_sources,
        sourcesStored=len(text.sources) if text.required_sources else None,
        cut=following("get_step_context", why, stepId=step.id, budgetTokens=60_000)
        if cut
        else None,
    )


def _next(plan: Plan, step: Step) -> Json:
    if step.status in TERMINAL_STEP:
        return following("get_next_step", "this step is over; take another", planId=plan.id)
    why = "when the work is done"
    return following("submit_step_result", why, stepId=step.id, attempt=step.attempt)


TOOL = Tool(
    name="get_step_context",
    title="Read up on a step",
    description="Instructions, earlier results, artifacts of a step. A sign of life.",
    arguments=GetStepContext,
    output_schema=output_schema(instructions="string"),
    run=get_step_context,
    reads_only=True,
)
