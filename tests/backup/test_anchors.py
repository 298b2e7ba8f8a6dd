"""Audit anchors detect deletions that cannot be seen from the database alone."""

from pathlib import Path

import psycopg
import pytest

from backup.copies import anchored, back_up, check_audit_of, empty_database, restore_into
from erasure_checks import add_user, erased, ignore_progress, slug_of
from org_env import OrgEnv, open_test_database
from postgres_servers import ServerDatabase, new_database
from waybook.accounts.model import LOCAL_ORG
from waybook.app.operations.anchors import AnchorCheck, check_anchor, write_anchor
from waybook.app.operations.erasure import erase_org
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.core.decision_context import Channel
from waybook.errors import InvalidInput
from waybook.store.maintenance.retention import RetentionPolicy, apply_retention


def judge(world: OrgEnv) -> RequestContext:
    return RequestContext(services=world.dispatcher.services, caller=world.agent.caller)


async def taken(world: OrgEnv, tmp_path: Path) -> Path:
    file = tmp_path / "anchor.jsonl"
    await write_anchor(judge(world), file)
    return file


async def compared(place: ServerDatabase, file: Path) -> AnchorCheck:
    async with open_test_database(place) as database:
        caller = Caller(org_id=LOCAL_ORG, user="judge", channel=Channel.CLI)
        services = Services(database=database)
        return await check_anchor(RequestContext(services=services, caller=caller), file)


async def test_audit_anchor_check_passes_after_later_writes(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    plan = await own_world.agent.plan()
    file = await taken(own_world, tmp_path)
    await own_world.agent.work_through(plan)
    await own_world.agent.plan()
    check = await check_anchor(judge(own_world), file)
    assert (check.ok, check.chains) == (True, len(anchored(file)))
    assert check.chains >= 2


async def test_anchor_check_of_empty_database_reports_every_missing_chain(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    await own_world.agent.plan()
    file = await taken(own_world, tmp_path)
    with new_database(own_world.place.server) as empty:
        check = await compared(empty, file)
    assert check.error_count == check.chains == len(anchored(file))
    assert "is missing, and no erasure explains it" in next(iter(check.errors.values()))[0]


async def test_anchor_check_reports_restore_from_an_older_backup(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    plan = await own_world.agent.plan()
    older = tmp_path / "older.zip"
    back_up(own_world.place, older)
    await own_world.agent.work_through(plan)
    file = await taken(own_world, tmp_path)
    with empty_database(own_world.place.server) as copy:
        restore_into(copy, older)
        await check_audit_of(copy)
        check = await compared(copy, file)
        assert (await compared(copy, older)).ok
    assert check.errors.keys() == {own_world.agent.org_id}
    assert [plan["planId"] in error for error in check.errors[own_world.agent.org_id]] == [True]


async def test_audit_anchor_check_reports_changed_hash_of_an_entry(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    own_world.is_sound = False
    plan = await own_world.agent.plan()
    file = await taken(own_world, tmp_path)
    with psycopg.connect(own_world.place.admin_dsn) as admin:
        admin.execute(
            "update audit_entry set hash = sha256(hash) where subject_id = %s", (plan["planId"],)
        )
    (errors,) = (await check_anchor(judge(own_world), file)).errors.values()
    assert errors == [f"plan {plan['planId']}: entry 1 has a different hash than in the anchor"]


async def test_audit_anchor_check_passes_after_user_was_erased(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    await add_user(own_world.place, own_world.agent, "eve")
    await own_world.agent.acting_as("eve").plan()
    longer = await own_world.agent.acting_as("eve").plan()
    file = await taken(own_world, tmp_path)
    await own_world.agent.work_through(longer)
    await erased(own_world, own_world.agent, "eve")
    assert (await check_anchor(judge(own_world), file)).ok


@pytest.mark.parametrize("is_anchored_first", [True, False])
async def test_anchor_check_reports_deleted_chain_despite_erasure_of_a_user(
    own_world: OrgEnv, tmp_path: Path, *, is_anchored_first: bool
) -> None:
    own_world.is_sound = False
    await add_user(own_world.place, own_world.agent, "eve")
    plan = await own_world.agent.acting_as("eve").plan()
    if not is_anchored_first:
        await erased(own_world, own_world.agent, "eve")
    file = await taken(own_world, tmp_path)
    if is_anchored_first:
        await erased(own_world, own_world.agent, "eve")
    with psycopg.connect(own_world.place.admin_dsn) as admin:
        admin.execute("delete from audit_entry where subject_id = %s", (plan["planId"],))
    (errors,) = (await check_anchor(judge(own_world), file)).errors.values()
    assert errors == [f"plan {plan['planId']}: entry 1 is missing, and no erasure explains it"]


async def test_audit_anchor_check_passes_after_org_was_erased(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    await own_world.agent.plan()
    file = await taken(own_world, tmp_path)
    slug = slug_of(own_world.agent)
    await erase_org(own_world.place.owner_dsn, slug, by="operator", progress=ignore_progress)
    assert (await check_anchor(judge(own_world), file)).ok


async def test_audit_anchor_check_passes_after_retention_deleted_a_plan(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    plan = await own_world.agent.plan()
    await own_world.agent.work_through(plan)
    file = await taken(own_world, tmp_path)
    with psycopg.connect(own_world.place.admin_dsn) as admin:
        admin.execute("update plan set updated_at = now() - interval '9 days'")
        admin.execute("update plan set completed_at = updated_at where completed_at is not null")
    own_world.is_sound = False
    gone = apply_retention(
        own_world.place.owner_dsn, RetentionPolicy(calls=0, answers=0, archived=1)
    )
    assert gone["plan"] == 1
    assert (await check_anchor(judge(own_world), file)).ok


async def test_audit_anchor_check_reports_deleted_erasure_record(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    own_world.is_sound = False
    await add_user(own_world.place, own_world.agent, "eve")
    await own_world.agent.acting_as("eve").plan()
    await erased(own_world, own_world.agent, "eve")
    file = await taken(own_world, tmp_path)
    with psycopg.connect(own_world.place.admin_dsn) as admin:
        admin.execute("delete from tombstone")
        admin.execute("delete from erasure")
    (errors,) = (await check_anchor(judge(own_world), file)).errors.values()
    assert [error for error in errors if "record of erasures" in error]


async def test_audit_anchor_file_with_missing_lines_raises_invalid_input(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    await own_world.agent.plan()
    file = await taken(own_world, tmp_path)
    lines = file.read_bytes().splitlines(keepends=True)
    for rest in ([], lines[:1], lines[:2], lines[:-1], [lines[0], *lines[2:]]):
        file.write_bytes(b"".join(rest))
        with pytest.raises(InvalidInput, match="anchor"):
            await check_anchor(judge(own_world), file)
