"""Research is stored in versions, with each source once; closed plans accept no research."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_builders import NOON, PAT, make_context, make_created_plan
from waybook.errors import InvalidInput
from waybook.json_values import Json
from waybook.plan.research import (
    RESERVED,
    ExistingResearch,
    Research,
    ResearchSource,
    store_research,
    store_standalone,
)

PAGE = ResearchSource(
    id="s1", content_hash="h1", url=None, title="A page", quote=None, retrieved_at=NOON
)
BOOK = replace(PAGE, id="s2", content_hash="h2", title="A book", retrieved_at=None)
MOMENT = make_context(PAT)
NOTE = Research(kind="note", title="Rivers", content="The Nile.", origins=(PAGE, BOOK))


@pytest.mark.parametrize(
    "changed",
    [
        replace(NOTE, content="The Amazon."),
        replace(NOTE, tags=("water",)),
        replace(NOTE, metadata={"a": 1}),
        replace(NOTE, origins=(PAGE,)),
    ],
)
def test_changed_research_is_stored_as_the_next_version(changed: Research) -> None:
    before = ExistingResearch("there", 3, NOTE.content_hash)
    reply = store_research(make_created_plan(), None, changed, before, MOMENT).reply
    assert (reply.version, reply.unchanged) == (4, False)
    assert reply.artifact_id != "there"
    assert store_standalone(changed, before, MOMENT)[0].version == 4


@given(st.dictionaries(st.text(), st.integers() | st.text()), st.randoms())
def test_hash_of_research_content_is_independent_of_key_order(
    content: dict[str, Json], chance: object
) -> None:
    names = [*content]
    chance.shuffle(names)  # type: ignore[attr-defined]  # a Random
    turned = {name: content[name] for name in names}
    assert replace(NOTE, content=content).content_hash == replace(NOTE, content=turned).content_hash


@pytest.mark.parametrize("kind", sorted(RESERVED))
def test_research_with_a_kind_reserved_for_the_server_is_refused(kind: str) -> None:
    with pytest.raises(InvalidInput):
        store_research(
            make_created_plan(), None, replace(NOTE, kind=kind), ExistingResearch(), MOMENT
        )
    with pytest.raises(InvalidInput):
        store_standalone(replace(NOTE, kind=kind), ExistingResearch(), MOMENT)
