"""Fragments of pages: versions, and the changes since a version."""

import re

import pytest

from waybook.dag.diagram.svg import MARK
from waybook.transport.http.html import layout
from waybook.transport.http.html.layout import (
    RenderedText,
    VersionMemory,
    end_fragment,
    finish_rendering,
    fragment,
    version_slot,
)


def page(rows: dict[str, str], *, head: str = "Steps", mask: str = "t1") -> str:
    """Return a page with a part that has a heading, a form, and a fragment per row."""
    listed = "".join(
        f'{fragment(name)}<li id="{name}">{text}</li>{end_fragment()}'
        for name, text in rows.items()
    )
    part = f'<ul id="part" data-version="{version_slot()}">{head} {mask} {listed}</ul>'
    return f"<body>{fragment('part')}{part}{end_fragment()}</body>"


def finish(
    memory: VersionMemory, text: str, version: str | None = None, mask: str = "t1"
) -> RenderedText:
    return finish_rendering(text, memory, volatile=[mask], known_version=version)


def version_in(text: str) -> str:
    matched = re.search(r'data-version="(\w+)"', text)
    assert matched, text
    return matched[1]


@pytest.fixture
def memory() -> VersionMemory:
    return VersionMemory()


def test_request_with_a_known_page_version_gets_only_changed_fragments(
    memory: VersionMemory,
) -> None:
    shown = version_in(finish(memory, page({"a": "one", "b": "two"})).text)
    sent = finish(memory, page({"a": "one", "b": "done"}), shown)
    assert sent.text == '<template data-fragment="b"><li id="b">done</li></template>'
    again = finish(memory, page({"a": "one", "b": "done"}), sent.version)
    assert (again.text, again.version) == ("", sent.version)


@pytest.mark.parametrize(
    "after",
    [
        page({"a": "one", "b": "two"}, head="Other steps"),
        page({"a": "one"}),
        page({"b": "two", "a": "one"}),
        page({"a": "one", "b": "two", "c": "three"}),
    ],
    ids=["own text", "removed", "moved", "added"],
)
def test_change_outside_of_page_fragments_sends_the_complete_page_part(
    memory: VersionMemory, after: str
) -> None:
    shown = version_in(finish(memory, page({"a": "one", "b": "two"})).text)
    sent = finish(memory, after, shown)
    assert sent.version is None
    assert "<ul" in sent.text


def test_new_form_tokens_and_relative_times_send_no_update(memory: VersionMemory) -> None:
    old = page({"a": '<time datetime="1">just now</time>'}, mask="t1")
    new = page({"a": '<time datetime="1">2 min ago</time>'}, mask="t2")
    shown = version_in(finish(memory, old, mask="t1").text)
    assert finish(memory, new, shown, mask="t2").text == ""
    later = page({"a": '<time datetime="2">just now</time>'}, mask="t2")
    assert "<li" in finish(memory, later, shown, mask="t2").text


def test_server_drops_the_oldest_page_version_at_the_memory_limit(
    memory: VersionMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MAX_REMEMBERED_BYTES", 100)
    versions = [version_in(finish(memory, page({"a": str(n)})).text) for n in range(10)]
    latest = page({"a": "9"})
    assert finish(memory, latest, versions[0]).version is None
    assert finish(memory, latest, versions[9]).version == versions[9]


def test_stored_text_like_a_fragment_marker_stays_text(memory: VersionMemory) -> None:
    text = f"<!--+a-->{MARK}a{MARK}"
    assert text in finish(memory, page({"a": text})).text
