"""Random texts: every importer imports the text, or refuses it with an error and a line number."""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from waybook.errors import InvalidInput
from waybook.importers.formats import PlanFormat, decode, read_plan
from waybook.plan.model import MAX_STEPS

#: Pieces of all formats, so that random texts reach many branches of the importers.
PIECES = st.sampled_from(
    [
        *("# T\n", "## A\n", "- [ ] a", "- [x] b", "1. c", "\n", " (after 1)", " depends on #2"),
        *("```\n", "> q\n", "## Steps\n", "### 1. s\n", "✓ completed, search\n", "  "),
        *("flowchart LR\n", "graph TD;", "a-->b", "a[", "]", "|x|", " & ", "subgraph s\n", "end\n"),
        *("--", "==", "-.", ".->", "<", ">", '"', ";", ":::c", "@{label: x}", "---\n", "%%\n"),
        *('{"tasks": [', '{"id": 1, "title": "x"}', ",", "]}", '"dependencies": [1]', "{", "}"),
        *('[{"number": 1, "title": "t", "body": null},', '"blockedBy": {"nodes": [{"number": 2}]}'),
        *('{"data": {"issues": [', '"pull_request": {}', '"subIssues": [{"number": 3}]', "]"),
        *('{"title": "t", "body": "- [ ] a"}', '{"id": "a", "title": "b", "status": "open"}\n'),
    ]
)
T = TypeVar("T")


def outcome(act: Callable[[], T]) -> T | InvalidInput:
    try:
        return act()
    except InvalidInput as error:
        return error


TEXTS = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=4))).map("".join))


@given(text=TEXTS, form=st.sampled_from([None, *PlanFormat]), include_done=st.booleans())
@example(text="graph TD\n" + "a-->" * 400 + "a", form=PlanFormat.MERMAID, include_done=True)
@example(text='{"a":' * 2_000, form=None, include_done=True)
def test_any_text_is_imported_or_refused_with_a_line_number(
    text: str, *, form: PlanFormat | None, include_done: bool
) -> None:
    plan = outcome(lambda: read_plan(text, form, include_done=include_done))
    if isinstance(plan, InvalidInput):
        line = re.match(r"line (\d+): ", plan.message)
        assert line, plan.message
        assert 1 <= int(line[1]) <= text.count("\n") + 2
    else:
        assert 1 <= len(plan.steps) <= MAX_STEPS
        assert plan.name.strip()
        assert all(step.instructions.strip() for step in plan.steps)
        orders = range(1, len(plan.steps) + 1)
        assert all(order in orders for step in plan.steps for order in step.depends_on)


@given(st.binary())
def test_any_bytes_are_decoded_or_refused_with_a_line_number(data: bytes) -> None:
    text = outcome(lambda: decode(data))
    if isinstance(text, InvalidInput):
        assert re.match(r"line \d+: ", text.message)
    else:
        assert "\0" not in text


@pytest.mark.parametrize("form", PlanFormat)
def test_import_of_an_empty_text_is_refused_in_every_format(form: PlanFormat) -> None:
    with pytest.raises(InvalidInput, match=r"^line 1: "):
        read_plan("", form)


# Tests of encodings.


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(BOM_UTF16_LE, "utf-16-le"), (BOM_UTF16_BE, "utf-16-be"), (BOM_UTF8, "utf-8")],
)
def test_file_with_a_byte_order_mark_is_decoded(mark: bytes, encoding: str) -> None:
    text = '[{"number": 1, "title": "größer 🚀"}]\r\n'
    assert decode(mark + text.encode(encoding)) == text


def test_broken_utf_16_is_refused_with_a_line_number() -> None:
    with pytest.raises(InvalidInput, match=r"^line 2: this is not UTF-8, nor UTF-16"):
        decode(BOM_UTF16_LE + "a\n".encode("utf-16-le") + b"\x00\xdc\x00")
