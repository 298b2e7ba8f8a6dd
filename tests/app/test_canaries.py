"""Submitted texts in replies: each appears only in the fields that may contain it."""

import re
from collections.abc import Iterator

import pytest

from injection_samples import CANARIES
from marked_data import (
    Leaf,
    MarkedWriter,
    marked_cancellation,
    marked_copy,
    marked_output,
    marked_plan,
    marked_run,
    text_leaves,
)
from org_env import OrgEnv
from read_all_tools import read_all

MARK = re.compile(r"q\d{4}q")
#: Arguments whose text no tool stores: the text is used only during the call, or is the name of
#: an existing record.
NOT_STORED = {
    ("extract_data", "text"),
    ("list_skills", "name"),
    ("search_sources", "tags"),
    ("start_skill", "name"),
}
#: Arguments whose text appears in no reply, but only in the audit, for people.
FOR_PEOPLE = {
    ("complete_skill", "outcome"),
    ("fail_job", "error"),
    ("report_worker", "host"),
    ("report_worker", "lines"),
    ("reserve_work", "agent"),
    ("submit_step_result", "stepExecutionReport"),
}
#: For each argument, the reply fields that may contain its text. `svg` is a drawing with titles.
#: `prompt` is either the prompt of a job, into which submitted texts are inserted, or the prompt of
#: `extract_data`, which contains the text to extract data from.
PLACES = {
    "agent": {"agent"},
    "content": {"content", "snippet", "prompt"},
    "feedback": {"feedback", "instructions", "details", "prompt", "svg"},
    "input": {"content", "prompt"},
    "instructions": {"instructions"},
    "kind": {"kind", "prompt"},
    "metadata": {"metadata"},
    "modificationRationale": {"rationale", "details"},
    "name": {"name", "planName", "runName", "prompt", "svg"},
    "outputFormattingNotes": {"planFormattingNotes", "notes", "content"},
    "questions": {"questions", "summary"},
    "quote": {"quote", "snippet"},
    "reason": {"reason", "failReason", "details"},
    "researchQuestion": {"researchQuestion", "content"},
    "resultSummary": {"resultSummary", "result"},
    "summary": {"summary"},
    "tags": {"tags"},
    "text": {"text"},
    "title": {"title", "name", "about", "prompt", "svg"},
    "touches": {"touches"},
    "url": {"url"},
}
#: Reply fields that must not contain a submitted text, even in nested fields.
OURS = {"next", "why", "tool", "args", "get", "cut", "message", "code", "oddCharacters", "status"}
KEY = "a key"


def marks_in(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every marker in an answer, with the keys that lead to its place."""
    if isinstance(value, str):
        yield from ((mark, path) for mark in MARK.findall(value))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from ((mark, (*path, KEY)) for mark in MARK.findall(key))
            yield from marks_in(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from marks_in(inner, path)


def is_astray(leaf: Leaf, path: tuple[str, ...]) -> bool:
    """Return whether the text of this argument must not appear at this place in a reply."""
    return bool(OURS & {*path}) or not PLACES[leaf[-1]] & {*path}


def test_prompt_injection_is_tested_with_at_least_sixty_samples() -> None:
    assert len({*CANARIES}) == len(CANARIES) >= 60


@pytest.mark.parametrize(
    "path", [("next", "args", "query"), ("error", "message"), ("status",), ("hits", "why", "words")]
)
def test_leak_check_reports_user_text_in_fields_for_server_text(path: tuple[str, ...]) -> None:
    assert is_astray(("store_research", "title"), path)


async def test_texts_of_users_appear_only_in_the_allowed_reply_fields(world: OrgEnv) -> None:
    agent, ink = world.agent, MarkedWriter()
    plans = [await marked_plan(agent, ink), await marked_output(agent, ink)]
    plans.append(await marked_copy(agent, ink, plans[0]))
    run, canceled = await marked_run(agent, ink), await marked_cancellation(agent, ink)
    assert {*ink.written.values()} == {*text_leaves()} - NOT_STORED, "a text argument is not filled"
    answers = await read_all(agent, plans, run, canceled)
    occurrences = {
        (ink.written[mark], path) for answer in answers for mark, path in marks_in(answer.body)
    }
    assert [occurrence for occurrence in occurrences if is_astray(*occurrence)] == []
    assert {leaf for leaf, _ in occurrences} == {*ink.written.values()} - FOR_PEOPLE
    codes = {answer.body["error"]["code"] for answer in answers if answer.is_error}  # type: ignore[index]  # an error is an object
    assert codes >= {
        "RUN_CANCELED",
        "STALE_ATTEMPT",
        "INVALID_TRANSITION",
        "PLAN_TERMINAL",
        "NOT_FOUND",
    }
