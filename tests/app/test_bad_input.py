"""Invalid input changes nothing; the error has a code and says what to do."""

import json
import logging
import math
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import psycopg
import pytest

from org_env import AgentClient, Body, OrgEnv, make_env
from postgres_servers import Server, new_database
from tool_arguments import arguments_of
from tool_calls import MUTATING, valid_call
from waybook.app.registry import TOOLS
from waybook.app.request.caller import Answer

#: Error codes that a refusal of invalid input may have.
NAMED = {
    *("INVALID_INPUT", "TOO_LARGE", "NOT_FOUND", "INVALID_STEP_REFERENCE", "INVALID_TRANSITION"),
    *("BAD_EXPRESSION", "BAD_RECIPE", "STALE_ATTEMPT", "STALE_PLAN", "NOT_AWAITING_REVIEW"),
    "IDEMPOTENCY_CONFLICT",
}


def nested(depth: int) -> Any:  # noqa: ANN401 - nested lists
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


#: Values that a tool may refuse; each value is sent for every argument.
EACH: dict[str, Any] = {
    "null": None,
    "a number": 3,
    "a negative number": -1,
    "zero": 0,
    "a fraction": 0.5,
    "truth": True,
    "an empty text": "",
    "a blank": "   ",
    "a text": "nope",
    "a number as text": "12",
    "an empty list": [],
    "a list": [1, "a", None],
    "an empty object": {},
    "an object": {"a": 1, "stepType": "search"},
    "beyond 32 bits": 2**40,
    "beyond 64 bits": 2**64,
    "NUL": "a\0b",
    "half a character": "a\ud800b",
    "300 kB": "x" * 300_000,
    "JSON text of a list": "[1, 2]",
    "JSON text of an object": '{"a": 1}',
    "JSON text, broken": '[{"a": ',
    "quotes": "'; drop table plan; --",
    "controls": "\x01\x02\x1b[31m\x7f\u202e",
}
#: Invalid values that are refused before single arguments are checked, so they are sent only for
#: one argument of each tool.
FIRST: dict[str, Any] = {
    "a list of lists": [[[]]],
    "not a number": math.nan,
    "infinity": math.inf,
    "5,000 digits": 10**5_000,
    "-5,000 digits": -(10**5_000),
    "NUL inside": {"a": ["b\0"]},
    "NUL as a name": {"a\0": 1},
    "half a character inside": [{"a": "\udfff"}],
    "100 levels": nested(100),
    "100,000 levels": nested(100_000),
    "2 MB": "x" * 2_000_000,
    "many": ["x"] * 5_000,
    "JSON text, infinite": "[1e400]",
    "JSON text, not a number": "[NaN]",
    "JSON text, 5,000 digits": f"[{'9' * 5_000}]",
    "JSON text, 500 levels": "[" * 500 + "]" * 500,
    "JSON text, 100,000 levels": "[" * 100_000 + "]" * 100_000,
    "JSON text with NUL": '["\\u0000"]',
    "JSON text with half a character": '["\\ud800"]',
}
BAD = EACH | FIRST


@pytest.fixture
async def alone(eighteen: Server) -> AsyncIterator[OrgEnv]:
    """Yield an environment with a database of its own, so that `digest` has few rows to read."""
    with new_database(eighteen) as place:
        async with make_env(place) as made:
            yield made


@pytest.fixture
def admin(alone: OrgEnv) -> Iterator[psycopg.Connection]:
    """Yield a database connection that can read the rows of all orgs."""
    with psycopg.connect(alone.place.admin_dsn, autocommit=True) as connection:
        yield connection


def digest(admin: psycopg.Connection) -> list[tuple[str, int, str]]:
    """Return the number and a hash of the rows of each table, except the log of tool calls."""
    tables = admin.execute(
        """select relname from pg_class
            where relnamespace = 'public'::regnamespace and relkind = 'r'
              and relname not like 'mcp_tool_call_log%'
            order by relname"""
    ).fetchall()
    each = [_DIGEST.replace("TABLE", name) for (name,) in tables]
    return sorted(admin.execute(" union all ".join(each).encode(), prepare=True).fetchall())


_DIGEST = "select 'TABLE', count(*), sum(hashtextextended(t::text, 0))::text from TABLE t"


def check_refusal(answer: Answer, what: str) -> None:
    error: Any = answer.body["error"]
    assert error["code"] in NAMED, (what, error)
    assert set(error) == {"code", "message", "details", "next"}
    assert len(error["message"]) > 10, what
    assert len(json.dumps(answer.body)) < 48_000, what
    assert "broke" not in error["message"]
    assert error["next"]["tool"] in TOOLS, (what, error)
    assert set(error["next"]["args"]) <= set(arguments_of(error["next"]["tool"])), what


@pytest.mark.parametrize("tool", TOOLS)
async def test_invalid_argument_values_are_rejected_without_writes_or_warnings(
    alone: OrgEnv, admin: psycopg.Connection, tool: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = [*arguments_of(tool), "unheardOf"]
    calls = {name: await valid_call(alone.agent, tool, using=name) for name in names}
    before = digest(admin)
    refused = {
        name: await refused_values(alone.agent, tool, name, calls[name], EACH if number else BAD)
        for number, name in enumerate(names)
    }
    if tool in MUTATING:
        # The tool may have accepted some values and changed rows. Send the refused values again,
        # and check that they change nothing.
        calls = {name: await valid_call(alone.agent, tool, using=name) for name in names}
        before = digest(admin)
        for name, good in calls.items():
            for kind in refused[name]:
                answer = await alone.agent.ask(tool, {**good, name: BAD[kind]})
                assert answer.is_error, f"{tool}: {name} = {kind}"
    assert digest(admin) == before
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == []


async def refused_values(
    agent: AgentClient, tool: str, name: str, good: Body, values: Mapping[str, Any]
) -> list[str]:
    """Return the names of the values that the tool refuses without storing anything."""
    refused = []
    for kind, value in values.items():
        answer = await agent.ask(tool, {**good, name: value})
        if answer.is_error:
            check_refusal(answer, f"{tool}: {name} = {kind}")
        if answer.is_error and not is_stored_refusal(answer):
            refused.append(kind)
        elif tool in MUTATING:
            good = await valid_call(agent, tool, using=name)
    return refused


def is_stored_refusal(answer: Answer) -> bool:
    """Return whether a call was refused for an outdated attempt; the server stores its result."""
    error: Any = answer.body["error"]
    return answer.is_error and error["code"] == "STALE_ATTEMPT"


STEPS: list[tuple[Any, str]] = [
    ([], "INVALID_INPUT"),
    ("[]", "INVALID_INPUT"),
    ([{"stepType": "search"}], "INVALID_INPUT"),
    ([{"stepType": "dance", "instructions": "x"}], "INVALID_INPUT"),
    ([{"stepType": "search", "instructions": ""}], "INVALID_INPUT"),
    ([{"stepType": "search", "instructions": "x", "colour": "red"}], "INVALID_INPUT"),
    ([{"stepType": "search", "instructions": "x" * 20_001}], "TOO_LARGE"),
    ([{"stepType": "search", "instructions": "x", "title": "x" * 201}], "TOO_LARGE"),
    ([{"stepType": "search", "instructions": "x", "stallMinutes": 0}], "INVALID_INPUT"),
    ([{"stepType": "search", "instructions": "x", "stallMinutes": -1}], "INVALID_INPUT"),
    ([{"stepType": "search", "instructions": "x", "stallMinutes": "nan"}], "INVALID_INPUT"),
    ([{"stepType": "search", "instructions": "x", "resultSchema": [1]}], "INVALID_INPUT"),
    ([{"stepType": "search", "instructions": "x", "resultSchema": {"type": 3}}], "INVALID_INPUT"),
    (
        [{"stepType": "search", "instructions": "x", "resultSchema": {"$ref": "http://x"}}],
        "INVALID_INPUT",
    ),
]


@pytest.mark.parametrize(("steps", "code"), STEPS, ids=str)
async def test_malformed_steps_are_refused_and_change_nothing(
    agent: AgentClient,
    steps: Any,  # noqa: ANN401 - anything
    code: str,
) -> None:
    named = {"name": "x", "researchQuestion": "x", "steps": steps}
    assert (await agent.refused("create_research_plan", **named))["code"] == code
    plan = await agent.plan()
    adding = [{"action": "add_steps", "steps": steps}]
    error = await agent.refused("modify_plan", planId=plan["planId"], modifications=adding)
    assert error["code"] == code
    assert (await agent.status(plan))["revision"] == 1


@pytest.mark.parametrize(
    "cursor",
    [
        *("x", "", "e30=", "bnVsbA==", "WzEsIDJd", "////", "é"),
        "WyIyMDMwLTAxLTAxVDAwOjAwOjAwKzIzOjU5IiwgIjAxYTFkZWU5LTg2YzMtNzg1YS1iZTgyLTNmYmE4N2Y5ZTU4MiJd",
        "WyIwMDAxLTAxLTAxVDAwOjAwOjAwKzE0OjAwIiwgIjAxYTFkZWU5LTg2YzMtNzg1YS1iZTgyLTNmYmE4N2Y5ZTU4MiJd",
        "WyIyMDMwLTAxLTAxIiwgIjAxYTFkZWU5LTg2YzMtNzg1YS1iZTgyLTNmYmE4N2Y5ZTU4MiJd",
    ],
)
async def test_invalid_cursor_of_list_active_plans_causes_no_internal_error(
    agent: AgentClient, cursor: str
) -> None:
    answer = await agent.ask("list_active_plans", {"cursor": cursor})
    if answer.is_error:
        check_refusal(answer, cursor)


async def test_arguments_nested_100000_levels_are_rejected_and_logged(world: OrgEnv) -> None:
    await world.agent.refused("ping", a=nested(100_000))
    await world.agent.refused("list_active_plans", a=nested(100_000), b=10 ** (sys.maxsize % 5_000))
    await world.dispatcher.calls.flush()
    counting = "select count(*) from mcp_tool_call_log"
    (rows,) = await world.database.read_org(world.agent.org_id, counting)
    assert rows == [(1,)]
