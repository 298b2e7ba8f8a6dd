"""Modifications and conditions in two forms: as tool arguments, and as values of `waybook.plan`."""

from dataclasses import replace

from org_env import Body, make_step
from waybook.plan import modify as rules
from waybook.plan.model import BranchAction, Budget, NewCondition, NewStep, Plan, StepId, StepType
from waybook.plan.modify import SetBudget, SetDependencies, SetTitle

LOOK = "Look it up."
#: Kinds of modifications, from which a test chooses at random. The repeated kinds are chosen more
#: often than `cancel`, which ends the plan.
MODIFICATIONS = (
    *("add", "remove", "reverse", "rewrite", "fail", "again", "retry") * 2,
    *("add_repeat", "conditions", "no_conditions") * 2,
    *("title", "no_title", "depend", "depend_on_none", "budget"),
    "cancel",
)


def modification(plan: Plan, kind: str, place: int) -> tuple[Body, rules.Modification]:
    """Return a modification of this kind, as a tool argument and as a value of `waybook.plan`."""
    step_id = plan.steps[place % len(plan.steps)].id
    named = {"stepId": step_id}
    new = NewStep(type=StepType.SEARCH, instructions=LOOK)
    wire, condition = make_branch(BranchAction.REPEAT, target=1)
    turned = tuple(step.id for step in reversed(plan.steps))
    adding = {"action": "add_steps", "steps": [make_step()], "insertAfterOrder": place}
    kinds: dict[str, tuple[Body, rules.Modification]] = {
        "add": (adding, rules.AddSteps((new,), place)),
        "add_repeat": (
            {**adding, "steps": [make_step(branchingConditions=[wire])]},
            rules.AddSteps((replace(new, conditions=(condition,)),), place),
        ),
        "conditions": (
            {"action": "set_conditions", **named, "branchingConditions": [wire]},
            rules.SetConditions(step_id, (condition,)),
        ),
        "no_conditions": (
            {"action": "set_conditions", **named, "branchingConditions": []},
            rules.SetConditions(step_id, ()),
        ),
        "cancel": ({"action": "cancel_plan", "reason": "no use"}, rules.CancelPlan("no use")),
        "remove": ({"action": "remove_step", **named}, rules.RemoveStep(step_id)),
        "reverse": (
            {"action": "reorder_steps", "stepIds": list(turned)},
            rules.ReorderSteps(turned),
        ),
        "rewrite": (
            {"action": "update_step_instructions", **named, "instructions": f"No. {place}"},
            rules.UpdateInstructions(step_id, f"No. {place}"),
        ),
        "fail": (
            {"action": "fail_step", **named, "reason": "broken"},
            rules.FailStep(step_id, "broken"),
        ),
        "again": (
            {"action": "fail_step", **named, "reason": "broken", "retry": True},
            rules.FailStep(step_id, "broken", retry=True),
        ),
        "retry": ({"action": "retry_step", **named}, rules.RetryStep(step_id)),
        **edits(step_id, place),
    }
    return kinds[kind]


def edits(step_id: StepId, place: int) -> dict[str, tuple[Body, rules.Modification]]:
    """Return the modifications that change no status, each in both forms."""
    named = {"stepId": step_id}
    return {
        "title": (
            {"action": "set_title", **named, "title": f"Title {place}"},
            SetTitle(step_id, f"Title {place}"),
        ),
        "no_title": ({"action": "set_title", **named}, SetTitle(step_id, None)),
        "depend": (
            {"action": "set_dependencies", **named, "dependsOn": [place]},
            SetDependencies(step_id, (place,)),
        ),
        "depend_on_none": (
            {"action": "set_dependencies", **named, "dependsOn": []},
            SetDependencies(step_id, ()),
        ),
        "budget": (
            {"action": "set_budget", "budget": {"tokens": place + 1}},
            SetBudget(Budget(tokens=place + 1)),
        ),
    }


def make_branch(action: BranchAction, *, target: int) -> tuple[Body, NewCondition]:
    """Return a condition with this action, as a tool argument and as a value of `waybook.plan`."""
    params: Body = {}
    steps: tuple[NewStep, ...] = ()
    if action is BranchAction.SKIP_TO:
        params["targetStepOrder"] = target
    if action is BranchAction.REPEAT:
        params |= {"fromStepOrder": 1, "max": 2}
    if action is BranchAction.ADD_STEPS:
        inner, inner_condition = make_branch(BranchAction.REPEAT, target=target)
        params["steps"] = [make_step(branchingConditions=[inner])]
        added = NewStep(type=StepType.SEARCH, instructions=LOOK, conditions=(inner_condition,))
        steps = (added,)
    expression = "result == 'branch'"
    condition = NewCondition(
        expression=expression,
        action=action,
        target_step_order=params.get("targetStepOrder"),
        from_step_order=params.get("fromStepOrder"),
        max_repeats=params.get("max"),
        steps=steps,
    )
    wire = {"conditionExpression": expression, "ifTrueAction": str(action), "actionParams": params}
    return wire, condition
