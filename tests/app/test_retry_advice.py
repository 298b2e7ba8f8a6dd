"""Advice in errors: when to retry the refused call, and which arguments to change first."""

from collections.abc import Iterator
from typing import Any

import pytest

from org_env import AgentClient
from waybook.app.registry import TOOLS
from waybook.app.request.answers import error_answer, retry_call
from waybook.errors import (
    BadRecipe,
    Busy,
    Forbidden,
    InvalidTransition,
    NextCall,
    TooLarge,
    Unavailable,
    WaybookError,
)

ON_POSTGRES_18 = pytest.mark.parametrize("server", ["18"], indirect=True, scope="session")


def why(error: WaybookError, tool: str = "create_research_plan", **arguments: object) -> str:
    call = retry_call(error, TOOLS[tool], arguments)
    assert call is not None
    assert (call.tool, call.is_retry) == (tool, True)
    assert call.args.items() >= arguments.items()
    return call.why


def test_retry_advice_in_error_names_delay_and_idempotency_key() -> None:
    assert why(Busy()) == "Retry the same call after 1 s, with the same idempotencyKey."
    assert why(Busy(), "get_plan_status") == "Retry the same call after 1 s."
    advice = why(Unavailable(), idempotencyKey="k")
    assert advice == "Retry the same call after 5 s, with the same idempotencyKey."


@pytest.mark.parametrize("tool", [name for name, tool in TOOLS.items() if not tool.reads_only])
def test_failed_write_call_without_idempotency_key_suggests_a_read_call(tool: str) -> None:
    call = retry_call(Unavailable(), TOOLS[tool], {})
    assert call is not None
    assert TOOLS[call.tool].reads_only
    assert not call.is_retry


@pytest.mark.parametrize("key", [None, "", "  "])
def test_failed_write_call_with_blank_idempotency_key_suggests_no_retry(key: str | None) -> None:
    call = retry_call(Unavailable(), TOOLS["create_research_plan"], {"idempotencyKey": key})
    assert call is not None
    assert call.tool == "list_active_plans"


def test_retry_advice_names_each_faulty_argument_once() -> None:
    assert why(TooLarge(argument="steps")) == "Retry the same call, with less in steps."
    assert why(TooLarge(limit=3)) == "Retry the same call, with less in it."
    faults = [{"at": at} for at in ("steps.0.title", "name", "steps.1", "researchQuestion")]
    advice = why(BadRecipe(faults=faults))
    assert advice == "Retry the same call, with steps, name and researchQuestion corrected."
    assert (
        why(BadRecipe(faults=[])) == "Retry the same call, with what the message names corrected."
    )


def error_kinds(kind: type[WaybookError] = WaybookError) -> Iterator[type[WaybookError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from error_kinds(inner)


@pytest.mark.parametrize("tool", ["get_next_step", "get_next_job"])
@pytest.mark.parametrize("kind", [*error_kinds()], ids=lambda kind: kind.__name__)
def test_every_error_suggests_a_call_or_says_that_no_call_helps(
    kind: type[WaybookError], tool: str
) -> None:
    error = kind(old="a", new="b") if kind is InvalidTransition else kind()
    body: Any = error_answer(error, TOOLS[tool], {"planId": "p", "runId": "r"}).body["error"]
    if issubclass(kind, Forbidden):
        assert body["message"].endswith("(No other call helps; tell your user.)")
    else:
        assert body["next"]["tool"] in {tool, "list_active_plans", "list_dags"}
        assert body["next"]["args"] or TOOLS[body["next"]["tool"]].reads_only


def test_error_answer_contains_the_suggested_call_of_the_error() -> None:
    own = NextCall("list_dags", {}, "see")
    assert "list_dags" in str(
        error_answer(TooLarge(next_call=own), TOOLS["get_next_step"], {}).body
    )


@ON_POSTGRES_18
async def test_error_for_unstorable_text_names_the_argument(agent: AgentClient) -> None:
    arguments = {"name": "x", "researchQuestion": "\ud800", "steps": []}
    error = await agent.refused("create_research_plan", **arguments)
    assert error["details"] == {"argument": "researchQuestion"}
    assert error["next"]["why"] == "Retry the same call, with researchQuestion corrected."
    strange = {**arguments, "researchQuestion": "?", "\ud800": 1}
    assert (await agent.refused("create_research_plan", **strange))["details"] == {}
