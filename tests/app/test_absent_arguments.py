"""Arguments that the model left out, and that the client sends as null or blank text."""

from collections.abc import Mapping
from typing import Any

import pytest

from org_env import AgentClient
from waybook.app.registry import TOOLS
from waybook.app.request.arguments import BLANK, parse_arguments
from waybook.errors import InvalidInput

BLANKS = ["", "   ", "\t\n", "\u00a0"]
STEP = {"stepType": "search", "instructions": "Do it."}
PLAN = {"name": "p", "researchQuestion": "?", "steps": [STEP]}


def parse(tool: str, arguments: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments as the server reads them, without those that count as absent."""
    return parse_arguments(TOOLS[tool].arguments, arguments).model_dump(exclude_unset=True)


@pytest.mark.parametrize("blank", BLANKS)
def test_blank_text_in_nested_object_is_treated_as_absent(blank: str) -> None:
    step = {**STEP, "title": blank, "resultSchema": blank}
    parsed = parse("create_research_plan", {**PLAN, "steps": [step]})
    assert parsed["steps"] == parse("create_research_plan", PLAN)["steps"]


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("submit_user_decision", "place"),
        ("submit_step_result", "stepExecutionReport"),
        ("store_research", "metadata"),
        ("draw_map", "seen"),
    ],
)
def test_blank_argument_of_type_enum_time_or_json_counts_as_absent(
    tool: str, name: str, blank: str
) -> None:
    sent = parse_or_reject(tool, {name: blank})
    assert name not in sent


def parse_or_reject(tool: str, arguments: Mapping[str, object]) -> set[str]:
    """Return the names of the top-level arguments that the server refuses, if any."""
    try:
        parse(tool, arguments)
    except InvalidInput as error:
        faults: Any = error.details["faults"]
        return {fault["at"].partition(".")[0] for fault in faults}
    return set()


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("submit_step_result", "confidence"),
        ("submit_step_result", "attempt"),
        ("submit_step_result", "usage"),
        ("get_next_step", "another"),
        ("request_user_review", "questions"),
        ("create_research_plan", "budget"),
    ],
)
def test_blank_text_for_a_number_list_or_object_is_refused(
    tool: str, name: str, blank: str
) -> None:
    assert name in parse_or_reject(tool, {name: blank})


@pytest.mark.parametrize("blank", [None, *BLANKS])
@pytest.mark.parametrize(
    ("tool", "name"), [("submit_user_decision", "decision"), ("fail_job", "reason")]
)
def test_blank_value_of_a_required_or_unknown_argument_is_refused(
    tool: str, name: str, blank: str
) -> None:
    assert name in parse_or_reject(tool, {name: blank})


@pytest.mark.parametrize("blank", [*BLANKS[1:], "\x1f \x85"])
def test_blank_text_of_required_argument_is_replaced_by_placeholder(blank: str) -> None:
    # The schema does not exclude blank texts, because some clients refuse every schema that has a
    # `pattern`.
    step = {**STEP, "instructions": blank}
    parsed = parse(
        "create_research_plan", {"name": blank, "researchQuestion": blank, "steps": [step]}
    )
    assert (parsed["name"], parsed["research_question"]) == (BLANK, BLANK)
    assert parsed["steps"][0]["instructions"] == BLANK
    parsed = parse(
        "store_research", {"kind": blank, "title": "\x07", "content": "c", "tags": [blank]}
    )
    assert (parsed["kind"], parsed["title"], parsed["tags"]) == (BLANK, BLANK, [BLANK])


def test_error_for_empty_step_instructions_contains_path_of_the_field() -> None:
    plan = {**PLAN, "steps": [{**STEP, "instructions": ""}]}
    with pytest.raises(InvalidInput, match=r"^steps\.0\.instructions: must"):
        parse("create_research_plan", plan)


def test_null_value_of_required_text_argument_is_refused() -> None:
    assert "summary" in parse_or_reject("request_user_review", {"summary": None})


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("name", ["name", "researchQuestion"])
async def test_new_plan_without_name_or_question_is_refused(
    agent: AgentClient, name: str, value: str | None
) -> None:
    error = await agent.refused("create_research_plan", **{**PLAN, name: value})
    assert error["code"] == "INVALID_INPUT"
    assert [fault["at"] for fault in error["details"]["faults"]] == [name]
