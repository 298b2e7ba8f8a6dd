from waybook.client import Client
from waybook.conditions.condition import compile_condition
from waybook.errors import WaybookError
from waybook.plan.derive import derive_plan_status
from waybook.plan.states import (
    PlanStatus,
    StepStatus,
    can_move_plan,
    can_move_step,
    move_plan,
    move_step,
)
from waybook.record.replay import replay

__all__ = [
    "Client",
    "PlanStatus",
    "StepStatus",
    "WaybookError",
    "can_move_plan",
    "can_move_step",
    "compile_condition",
    "derive_plan_status",
    "move_plan",
    "move_step",
    "replay",
]
