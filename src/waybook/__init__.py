"""Waybook: plans shared by AI agents and people.

The public names are imported on first use, so that commands load only what they need.
"""

from importlib import import_module

_HOMES = {
    "Client": "waybook.client",
    "PlanStatus": "waybook.plan.model",
    "StepStatus": "waybook.plan.model",
    "WaybookError": "waybook.errors",
    "can_move_plan": "waybook.plan.model",
    "can_move_step": "waybook.plan.model",
    "compile_condition": "waybook.conditions.condition",
    "derive_plan_status": "waybook.plan.model",
    "detect_stalled_steps": "waybook.plan.progress",
    "is_plan_stalled": "waybook.plan.progress",
    "move_plan": "waybook.plan.model",
    "move_step": "waybook.plan.model",
    "replay": "waybook.core.changes",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the stub beside this file writes them out


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'waybook' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
