"""The list of tools, as MCP clients see it."""

import pytest

from transport.fake_dispatcher import TOOLS, make_refusal
from waybook.app.request.caller import Answer
from waybook.errors import Misconfigured
from waybook.transport.mcp.tools import to_tool_result, tools_in_profile


@pytest.mark.parametrize(
    ("profile", "names"),
    [
        ("auto", list(TOOLS)),
        (
            "research",
            [
                *("get_next_step", "submit_step_result", "list_active_plans"),
                *("store_research", "start_skill"),
            ],
        ),
        ("runs", ["start_run", "get_next_job"]),
        ("all", list(TOOLS)),
    ],
)
def test_tools_of_a_profile_follow_the_tool_table(profile: str, names: list[str]) -> None:
    assert [tool.name for tool in tools_in_profile(TOOLS, profile)] == names


def test_error_for_an_unknown_profile_lists_the_known_profiles() -> None:
    with pytest.raises(Misconfigured) as refusal:
        tools_in_profile(TOOLS, "everything")
    assert refusal.value.details == {"profiles": ["auto", "research", "runs", "all"]}


def test_read_only_tool_is_listed_with_read_only_hint() -> None:
    listed = TOOLS["list_active_plans"].listed.model_dump(by_alias=True, exclude_none=True)
    assert listed == {
        "name": "list_active_plans",
        "title": "List active plans",
        "description": "Calls list_active_plans.",
        "inputSchema": {"type": "object", "properties": {}},
        "outputSchema": {"type": "object", "properties": {}},
        "annotations": {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    }


def test_writing_tool_is_not_listed_as_read_only() -> None:
    listed = TOOLS["get_next_step"].listed.model_dump(by_alias=True, exclude_none=True)
    assert listed["annotations"] == {
        "readOnlyHint": False,
        "destructiveHint": False,
        "idempotentHint": False,
        "openWorldHint": False,
    }


def test_only_tools_that_claim_or_submit_are_always_loaded() -> None:
    loaded = {name for name, tool in TOOLS.items() if tool.listed.meta is not None}
    assert loaded == {"get_next_step", "submit_step_result", "get_next_job"}
    assert TOOLS["get_next_step"].listed.meta == {"anthropic/alwaysLoad": True}


def test_tool_result_has_structured_content_and_compact_json_text() -> None:
    result = to_tool_result(Answer({"status": "step_ready", "title": "Größe", "n": None}))
    assert result.structured_content == {"status": "step_ready", "title": "Größe", "n": None}
    assert result.content[0].model_dump(by_alias=True, exclude_none=True) == {
        "type": "text",
        "text": '{"status":"step_ready","title":"Größe","n":null}',
    }
    assert not result.is_error


def test_tool_error_result_has_single_compact_text_block() -> None:
    result = to_tool_result(make_refusal("NOT_FOUND", "There is no such plan."))
    dumped = result.model_dump(by_alias=True, exclude_none=True)
    assert dumped["isError"] is True
    assert "structuredContent" not in dumped
    assert [block["text"] for block in dumped["content"]] == [
        '{"error":{"code":"NOT_FOUND","message":"There is no such plan.","details":{},"next":null}}'
    ]
