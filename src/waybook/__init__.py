"""Waybook: plans shared by AI agents and people.

The public names are imported on first use, so that commands load only what they need.
"""

from importlib import import_module

_HOMES = {
    "Client": "waybook.client",
    "PlanStatus": "waybook.plan.states",
    "StepStatus": "waybook.plan.states",
    "WaybookError": "waybook.errors",
    "can_move_plan": "waybook.plan.states",
    "can_move_step": "waybook.plan.states",
    "compile_condition": "waybook.conditions.condition",
    "derive_plan_status": "waybook.plan.states",
    "detect_stalled_steps": "waybook.plan.progress",
    "is_plan_stalled": "waybook.plan.progress",
    "move_plan": "waybook.plan.states",
    "move_step": "waybook.plan.states",
    "replay": "waybook.core.replay",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the stub beside this file writes them out


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'waybook' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
