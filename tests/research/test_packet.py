"""Contexts of steps: the budget is divided fairly, and the sizes of omitted texts are exact."""

from dataclasses import replace
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from org_env import Body
from packet_checks import hostile_texts
from waybook.json_values import Json
from waybook.research.packet import (
    CUT_OVERHEAD,
    MIN_TEXT_BYTES,
    Entry,
    EntryList,
    FetchCall,
    Part,
    SingleEntry,
    TextField,
    allocate_space,
    as_text,
    build_packet,
    escaped_size,
    json_size,
)

ID = "01980000-0000-7000-8000-000000000000"
FRAME: Body = {"planId": ID, "stepId": ID, "stepOrder": 200, "status": "awaiting_input"}
ENDING: Body = {"next": {"tool": "submit_step_result", "args": {"stepId": ID}, "why": "when done"}}
AGAIN = FetchCall("get_step_context", {"stepId": ID, "budgetTokens": 12_000})
#: Allowed difference in bytes between the budget of a part and its size. The note about a cut may
#: be shorter than expected, and a character of several bytes may not fit before the cut.
SLACK = 40


def make_get(part: str) -> FetchCall:
    return FetchCall("get_step_context", {"stepId": ID, "part": part})


def make_text(random: Random, name: str, longest: int = 20_000) -> TextField:
    value: Json = hostile_texts(random, random.choice([20, 500, longest]))
    if random.random() < 0.3:
        value = {"found": value, "among": [1, None, True]}
    length = None
    if random.random() < 0.2:
        value = as_text(value)
        length = len(as_text(value)) + random.randint(0, 100_000)
    counts = random.randint(1, 6)
    return TextField(name=name, value=value, get=make_get(name), length=length, counts=counts)


def make_entry(random: Random, place: int) -> Entry:
    frame: Body = {"place": place, "title": hostile_texts(random, 200)}
    names = random.choice([("content",), ("instructions", "resultSummary"), ()])
    texts = tuple(make_text(random, name, 5_000) for name in names)
    return Entry(frame=frame, texts=texts, several=len(names) > 1)


def make_list(random: Random, name: str) -> EntryList:
    entries = tuple(make_entry(random, n) for n in range(random.choice([0, 1, 5, 30])))
    return EntryList(
        name=name,
        entries=entries,
        get=make_get(name),
        beyond=random.choice([0, 0, 460]),
        resume=lambda shown: {"offset": shown},
        focus=random.randrange(len(entries)) if entries and random.random() < 0.3 else 0,
        counts=random.randint(1, 6),
    )


def some_parts(random: Random) -> list[Part]:
    texts = [make_text(random, f"text{n}") for n in range(random.randint(1, 7))]
    ones = (
        [SingleEntry(name="result", entry=make_entry(random, 0))] if random.random() < 0.5 else []
    )
    lists = [make_list(random, f"list{n}") for n in range(random.randint(0, 5))]
    return [*texts, *ones, *lists]


def make_parts() -> list[tuple[list[Part], int]]:
    """Return random lists of context parts, each with a random budget."""
    chances = [Random(seed) for seed in range(250)]  # noqa: S311 - by chance, no secret
    return [
        (some_parts(c), c.choice([2_000, 2_500, c.randint(2_000, 48_000), 48_000])) for c in chances
    ]


@pytest.fixture(scope="module")
def contexts() -> list[tuple[list[Part], int, Body]]:
    return [(parts, room, packed(parts, room)) for parts, room in make_parts()]


def packed(parts: list[Part], room: int) -> Body:
    """Return the context of these parts in at most `room` bytes."""
    return build_packet(FRAME, parts, ending=ENDING, room=room, again=AGAIN)


Contexts = list[tuple[list[Part], int, Body]]


def test_context_never_exceeds_the_byte_budget(contexts: Contexts) -> None:
    for _, room, body in contexts:
        encoded = orjson.dumps(body)
        assert len(encoded) <= room
        assert len(encoded.decode()) <= room


def test_context_is_not_cut_if_the_budget_is_sufficient(contexts: Contexts) -> None:
    for parts, _, _ in contexts:
        room = json_size({**FRAME, **ENDING}) + CUT_OVERHEAD + sum(part.most + 40 for part in parts)
        body = packed(parts, room)
        complete = all(text.length is None for part in parts for text in texts_of(part))
        if complete and not any(isinstance(part, EntryList) and part.beyond for part in parts):
            assert '"cut":' not in orjson.dumps(body).decode()


def texts_of(part: Part) -> tuple[TextField, ...]:
    match part:
        case TextField():
            return (part,)
        case SingleEntry():
            return part.entry.texts
        case EntryList():
            return tuple(text for entry in part.entries for text in entry.texts)


def test_same_context_parts_always_give_the_same_context(contexts: Contexts) -> None:
    for parts, room, body in contexts:
        assert orjson.dumps(packed([replace(part) for part in parts], room)) == orjson.dumps(body)


def test_context_preserves_the_order_of_the_parts(contexts: Contexts) -> None:
    for parts, _, body in contexts:
        names = [part.name for part in parts]
        assert [name for name in body if name in names] == [n for n in names if n in body]
        assert [*body][: len(FRAME)] == [*FRAME]
        assert [*body][-1] == "next"


def test_every_cut_in_the_context_names_the_call_that_returns_the_rest(contexts: Contexts) -> None:
    cuts = 0
    for parts, _, body in contexts:
        cut: Body = body.get("cut", {})
        absent = cut.get("more", {"left": []})["left"]
        for part in parts:
            if part.name in absent:
                assert body.get(part.name, []) == []
            else:
                cuts += check_part(part, body[part.name], cut.get(part.name))
    assert cuts > 500


def check_part(part: Part, value: Any, note: Body | None) -> int:  # noqa: ANN401 - any JSON
    """Check that the shown and the omitted size of a part add up; return the omitted size."""
    match part:
        case TextField():
            return check_text(part, value, note)
        case SingleEntry():
            return check_entry(part.entry, value)
        case EntryList():
            left = note["left"] if note else 0
            assert len(value) + left == len(part.entries) + part.beyond
            places = [entry["place"] for entry in value]
            if places:
                assert places == [*range(places[0], places[-1] + 1)]
            if note:
                offset = note["get"]["args"]["offset"]
                assert offset == (0 if not places or places[0] else places[-1] + 1)
            return sum(check_entry(part.entries[e["place"]], e) for e in value)


def check_entry(entry: Entry, value: Body) -> int:
    cut = value.get("cut", {})
    notes = cut if entry.several else {text.name: cut or None for text in entry.texts}
    assert {name: value[name] for name in entry.frame} == entry.frame
    return sum(check_text(t, value[t.name], notes.get(t.name)) for t in entry.texts)


def check_text(text: TextField, value: Any, note: Body | None) -> int:  # noqa: ANN401 - any JSON
    full_length = text.length or len(text.text)
    if note is None:
        assert value == text.value
        assert full_length == len(text.text)
        return 0
    assert text.text.startswith(value)
    assert note["left"] == full_length - len(value)
    assert note["get"]["args"] == {"stepId": ID, "part": text.name, "offset": len(value)}
    return 1


def test_parts_of_the_context_are_cut_to_equal_size(contexts: Contexts) -> None:
    compared = 0
    for parts, _, body in contexts:
        cut: Body = body.get("cut", {})
        used = {part.name: used_by(part, body, cut) for part in parts if part.name in body}
        if "more" in cut:
            continue
        for truncated in parts:
            if (
                not isinstance(truncated, TextField)
                or truncated.name not in cut
                or truncated.length is not None
            ):
                continue
            level = (used[truncated.name] + SLACK) / truncated.counts
            for other in parts:
                allowed = max(other.floor, level * other.counts)
                assert used[other.name] <= allowed + SLACK
                compared += 1
    assert compared > 250


def used_by(part: Part, body: Body, cut: Body) -> int:
    empty = part.empty if isinstance(part, EntryList) else 0
    size = json_size({part.name: body[part.name]}) - 1 - empty
    return size + (json_size({part.name: cut[part.name]}) - 1 if part.name in cut else 0)


def test_every_context_part_gets_full_size_or_a_fair_share(contexts: Contexts) -> None:
    shared = 0
    for parts, room, body in contexts:
        cut: Body = body.get("cut", {})
        if "more" in cut:
            continue
        empties = sum(part.empty for part in parts if isinstance(part, EntryList))
        left = room - json_size({**FRAME, **ENDING}) - CUT_OVERHEAD - empties
        level = (left - sum(part.floor for part in parts)) // sum(part.counts for part in parts)
        for part in parts:
            if isinstance(part, TextField) and part.name in cut:
                fair = min(part.most, max(part.floor, level * part.counts))
                assert used_by(part, body, cut) >= fair - SLACK
                shared += 1
    assert shared > 125


def test_truncated_text_in_the_context_has_at_least_minimum_size(contexts: Contexts) -> None:
    for parts, _, body in contexts:
        cut: Body = body.get("cut", {})
        for part in parts:
            if isinstance(part, TextField) and part.name in cut:
                assert (
                    escaped_size(as_text(body[part.name]))
                    >= min(MIN_TEXT_BYTES, escaped_size(part.text)) - SLACK
                )


def test_context_of_a_list_shows_at_least_the_first_entry(contexts: Contexts) -> None:
    for parts, _, _ in contexts:
        for part in parts:
            if isinstance(part, EntryList) and part.entries:
                assert packed([part], 24_000)[part.name]


@given(
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 300), st.integers(1, 6)), max_size=20),
    st.integers(0, 40_000),
)
def test_space_of_a_context_is_divided_fairly_between_parts(
    requests: list[tuple[int, int, int]], spare: int
) -> None:
    claims = [(max(most, floor), floor, counts) for most, floor, counts in requests]
    room = sum(floor for _, floor, _ in claims) + spare
    shares = allocate_space(claims, room)
    assert sum(shares) <= room
    level = spare // max(1, sum(counts for _, _, counts in claims))
    for share, (most, floor, counts) in zip(shares, claims, strict=True):
        assert min(most, max(floor, level * counts)) <= share <= most
    if sum(most for most, _, _ in claims) <= room:
        assert shares == [most for most, _, _ in claims]
