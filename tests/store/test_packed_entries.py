"""Packed details of audit entries: the database restores the text that the seal covers."""

from datetime import UTC, datetime
from hashlib import sha256

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from org_env import OrgEnv
from waybook.core.changes import Event
from waybook.json_values import rfc3339
from waybook.store.driver.queries import as_json_text
from waybook.store.packed_entries import NO_DETAILS, PACKED_EVENTS, PHRASES, pack_details

STEP_ID = "01a1ea13-ae3b-7661-8d64-f1bc05373eec"
PLAN_ID = "01a1ea13-ae3b-7dee-9aae-7af8525d3c3c"
AT = datetime(2026, 11, 17, 15, 15, 23, 896462, tzinfo=UTC)
#: Digest of the published phrases. Stored entries cannot be read with other phrases.
DIGEST = "087a8dce5cc23d27"

RESTORE = """
select app_entry_details(%(details)s::json, %(packed)s::text, %(step_id)s::uuid, %(plan_id)s::uuid,
                         %(at)s::timestamptz, %(actor)s::text, %(session)s::text)
"""


def claim(actor: str, session: str | None, at: datetime) -> str:
    """Return the details of the first claim of a plan."""
    fields = {
        "status": ["pending", "in_progress"],
        "in_progress_since": [rfc3339(at)],
        "held_by": [actor],
        "held_session": [session],
    }
    changes = [
        ["session", session, {"*": [{"seen_at": rfc3339(at)}]}],
        ["step", STEP_ID, fields],
        ["plan", PLAN_ID, {"status": ["planning", "executing"]}],
    ]
    head = {"stepId": STEP_ID, "stepOrder": 1, "attempt": 1, "resumed": False}
    return as_json_text({**head, "changes": changes})


def restored(
    admin: psycopg.Connection, packed: tuple[str, str] | None, details: str, **entry: object
) -> str:
    """Return the details of an entry as the database restores them."""
    text, step_id = packed or (None, None)
    row = admin.execute(
        RESTORE, {"details": details, "packed": text, "step_id": step_id, **entry}
    ).fetchone()
    assert row
    return str(row[0])


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | names | st.sampled_from([STEP_ID, PLAN_ID]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


def test_database_restores_the_exact_text_of_packed_audit_details(world: OrgEnv) -> None:
    with psycopg.connect(world.place.admin_dsn, autocommit=True) as admin:

        @given(
            result=values,
            actor=names,
            session=st.none() | names,
            at=st.datetimes(datetime(1900, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
            is_claim=st.booleans(),
            event=st.sampled_from([*PACKED_EVENTS]),
        )
        def check(
            result: object,
            actor: str,
            session: str | None,
            at: datetime,
            event: Event,
            *,
            is_claim: bool,
        ) -> None:
            details = as_json_text({"stepId": STEP_ID, "stepOrder": 2, "result": result})
            if is_claim:
                details = claim(actor, session, at)
            packed = pack_details(event, details, PLAN_ID, at, actor, session)
            assert packed is not None
            entry = {"plan_id": PLAN_ID, "at": at, "actor": actor, "session": session}
            assert restored(admin, packed, NO_DETAILS, **entry) == details

        check()


def test_audit_entry_of_a_claim_is_stored_in_few_characters() -> None:
    packed = pack_details(Event.STEP_STARTED, claim("ann", "s", AT), PLAN_ID, AT, "ann", "s")
    assert packed is not None
    assert len(packed[0]) <= 16


@pytest.mark.parametrize(
    "details",
    [
        as_json_text({"stepId": STEP_ID, "changes": [["usage", PLAN_ID, {"*": [{}]}]]}),
        as_json_text({"stepId": STEP_ID, "branches": [{"action": "add_steps"}]}),
        as_json_text({"stepId": STEP_ID.upper()}),
        as_json_text({"stepId": STEP_ID, "reason": "x" * 2_000}),
        as_json_text({"jobId": STEP_ID}),
        "{}",
    ],
)
def test_audit_details_that_queries_search_are_not_packed(details: str) -> None:
    assert pack_details(Event.STEP_COMPLETED, details, PLAN_ID, AT, "ann", "s") is None


def test_forged_details_of_an_audit_entry_stay_visible(world: OrgEnv) -> None:
    """Otherwise the seal would not reveal them."""
    packed = pack_details(Event.STEP_STARTED, claim("ann", "s", AT), PLAN_ID, AT, "ann", "s")
    with psycopg.connect(world.place.admin_dsn) as admin:
        entry = {"plan_id": PLAN_ID, "at": AT, "actor": "ann", "session": "s"}
        assert restored(admin, packed, '{"a": 1}', **entry) == '{"a": 1}'


def test_table_for_packing_audit_entries_never_changes() -> None:
    assert sha256(repr(PHRASES).encode()).hexdigest()[:16] == DIGEST


async def test_audit_entries_of_claims_and_results_are_stored_packed(world: OrgEnv) -> None:
    plan = await world.agent.plan(1)
    await world.agent.work_through(plan)
    rows = await world.dispatcher.services.database.read_org(
        world.agent.org_id,
        "select event, packed is not null and details::text = '{}' from audit_entry"
        " where subject = 'plan' order by subject_id, seq",
    )
    assert dict(map(tuple, rows[0])) == {
        "plan_modified": False,
        "step_started": True,
        "step_completed": True,
    }
