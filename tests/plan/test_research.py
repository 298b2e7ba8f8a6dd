"""Research: it is stored in versions, with each source once; closed plans accept none."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_builders import NOON, PAT, make_context, make_created_plan
from waybook.core.changes import Entity, Event, replay
from waybook.errors import InvalidInput, PlanTerminal
from waybook.json_values import Json
from waybook.plan.model import PlanStatus
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


def test_first_version_of_research_is_stored_with_sources_and_links() -> None:
    plan = make_created_plan()
    decision = store_research(plan, None, NOTE, ExistingResearch(), MOMENT)
    (entry,) = decision.entries
    assert (entry.event, entry.details["action"]) == (Event.PLAN_MODIFIED, "research_stored")
    rows = replay(entry.changes)
    artifact_id = decision.reply.artifact_id
    assert rows[Entity.ARTIFACT][artifact_id]["version"] == 1
    assert set(rows[Entity.SOURCE]) == {"s1", "s2"}
    links = rows[Entity.ARTIFACT_SOURCE]
    assert [links[f"{artifact_id}/{n}"]["source_id"] for n in (1, 2)] == ["s1", "s2"]
    assert decision.plan.steps == plan.steps
    assert decision.plan.revision == plan.revision


def test_existing_source_is_linked_to_research_but_not_stored_again() -> None:
    before = ExistingResearch(sources=frozenset({"s1"}))
    (entry,) = store_research(make_created_plan(), None, NOTE, before, MOMENT).entries
    changes = [(change.entity, change.id) for change in entry.changes]
    assert (Entity.SOURCE, "s2") in changes
    assert (Entity.SOURCE, "s1") not in changes
    assert sum(entity is Entity.ARTIFACT_SOURCE for entity, _ in changes) == 2


def test_unchanged_research_only_renews_the_heartbeat() -> None:
    plan = make_created_plan()
    before = ExistingResearch("there", 3, NOTE.content_hash)
    decision = store_research(plan, plan.steps[0].id, NOTE, before, MOMENT)
    assert decision.entries == ()
    assert decision.touched == (plan.steps[0].id,)
    reply = decision.reply
    assert (reply.artifact_id, reply.version, reply.unchanged) == ("there", 3, True)
    assert store_standalone(NOTE, before, MOMENT) == (reply, None)


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


@pytest.mark.parametrize("status", [PlanStatus.COMPLETED, PlanStatus.FAILED])
def test_refused_research_for_closed_plan_suggests_storing_without_plan(status: PlanStatus) -> None:
    with pytest.raises(PlanTerminal) as refused:
        store_research(
            make_created_plan()._replace(status=status), None, NOTE, ExistingResearch(), MOMENT
        )
    call = refused.value.next_call
    assert call is not None
    assert (call.tool, dict(call.args)) == ("store_research", {"kind": "note", "title": "Rivers"})


@pytest.mark.parametrize("kind", sorted(RESERVED))
def test_research_with_a_kind_reserved_for_the_server_is_refused(kind: str) -> None:
    with pytest.raises(InvalidInput):
        store_research(
            make_created_plan(), None, replace(NOTE, kind=kind), ExistingResearch(), MOMENT
        )
    with pytest.raises(InvalidInput):
        store_standalone(replace(NOTE, kind=kind), ExistingResearch(), MOMENT)
