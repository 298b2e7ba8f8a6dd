"""Random calls that fit the published schemas must cause no argument or internal error."""

import os
from collections import Counter
from typing import Any

from org_env import OrgEnv
from random_calls import RandomCalls
from tool_calls import PREPARE, valid_call

CALLS = int(os.environ.get("WAYBOOK_RANDOM_CALLS", "300"))
SEED = int(os.environ.get("WAYBOOK_RANDOM_SEED", "1"))
#: Codes of internal errors, and of errors that the schema should have prevented.
ARGUMENT_ERRORS = {"INVALID_INPUT", "TOO_LARGE", "BAD_EXPRESSION", "BAD_RECIPE", "UNAVAILABLE"}
#: Messages of refusals that depend on the step or job, so that no schema can prevent them.
NEEDS = (
    "the result does not match the step's resultSchema",
    "this step needs ",
    "this step has no document ",
    "documents are missing",
    "is submitted twice",
    "each part of a long text must be submitted as exactly one document",
)


async def test_random_calls_that_match_the_schema_cause_no_argument_errors(world: OrgEnv) -> None:
    calls, codes = RandomCalls(SEED), Counter[str]()
    wrong: Counter[str] = Counter()
    for tool in PREPARE:
        arguments = await valid_call(world.agent, tool)
        calls.learn(arguments)
        calls.learn((await world.agent.ask(tool, arguments)).body)
    for _ in range(CALLS):
        tool, arguments = calls.call()
        answer = await world.agent.ask(tool, arguments)
        if not answer.is_error:
            codes["OK"] += 1
            calls.learn(answer.body)
            continue
        error: Any = answer.body["error"]
        codes[error["code"]] += 1
        depends = any(words in error["message"] for words in NEEDS)
        if error["code"] in ARGUMENT_ERRORS and not depends:
            wrong[f"{tool}: {error['code']}: {error['message'][:150]}"] += 1
    print(dict(codes))  # noqa: T201 - the figures of the run
    for message, count in wrong.most_common(60):
        print(count, message)  # noqa: T201
    assert wrong == {}
