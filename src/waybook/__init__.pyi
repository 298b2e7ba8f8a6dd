from waybook.client import Client
from waybook.conditions.condition import compile_condition
from waybook.core.changes import replay
from waybook.errors import WaybookError
from waybook.plan.model import (
    PlanStatus,
    StepStatus,
    can_move_plan,
    can_move_step,
    derive_plan_status,
    move_plan,
    move_step,
)
from waybook.plan.progress import detect_stalled_steps, is_plan_stalled

__all__ = [
    "Client",
    "PlanStatus",
    "StepStatus",
    "WaybookError",
    "can_move_plan",
    "can_move_step",
    "compile_condition",
    "derive_plan_status",
    "detect_stalled_steps",
    "is_plan_stalled",
    "move_plan",
    "move_step",
    "replay",
]
