import pytest

from plan_builders import make_context, make_plan, make_step, step_id
from waybook.errors import InvalidInput
from waybook.json_values import Json
from waybook.plan.model import Plan, StepStatus, StepText, StoredSource
from waybook.plan.submit import Submission, submit

S = StepStatus
SUBMISSION = Submission(result_summary="found")


def sources(count: int) -> tuple[StoredSource, ...]:
    return tuple(StoredSource(id=f"o{n}", title=f"Source {n}") for n in range(count))


def make_plan_that_asks(required: int | None, stored: int, schema: Json = None) -> Plan:
    plan = make_plan(make_step(S.IN_PROGRESS), make_step())
    text = StepText(
        instructions="Look it up.",
        result_schema=schema,
        required_sources=required,
        sources=sources(stored),
    )
    return plan._replace(texts={**plan.texts, step_id(1): text})


def test_error_for_too_few_sources_lists_at_most_20_sources() -> None:
    with pytest.raises(InvalidInput) as refusal:
        submit(make_plan_that_asks(50, 49), step_id(1), SUBMISSION, make_context())
    source_counts = refusal.value.details["sources"]
    assert isinstance(source_counts, dict)
    counted = source_counts["counted"]
    assert isinstance(counted, list)
    assert (len(counted), source_counts["stored"], source_counts["missing"]) == (20, 49, 1)
