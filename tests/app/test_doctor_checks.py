"""Checks of `waybook doctor`, each on a database or machine that fails the check."""

import shutil
import time

import pytest
from psycopg import connect

from org_env import OrgEnv
from waybook.app.operations import diagnostics
from waybook.app.operations.checks import CheckResult, CheckState
from waybook.app.operations.diagnostics import check_machine, check_server, try_everything
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Channel
from waybook.dag.templates.rendering import Rendered
from waybook.settings import Settings


def as_doctor(world: OrgEnv) -> RequestContext:
    caller = Caller(org_id=world.agent.org_id, user="ann", channel=Channel.CLI)
    return RequestContext(services=world.dispatcher.services, caller=caller)


def change(world: OrgEnv, statement: bytes) -> None:
    with connect(world.place.admin_dsn) as admin:
        admin.execute(statement)


async def server_checks(world: OrgEnv) -> dict[str, CheckResult]:
    return {check.name: check for check in await check_server(as_doctor(world))}


@pytest.mark.parametrize(
    ("statement", "failing", "quoted"),
    [
        (b"alter table plan owner to waybook_app", "roles", "row-level security does not restrict"),
        (b"alter table plan no force row level security", "row-level security", "plan"),
        (b"grant update, delete on audit_entry to waybook_app", "audit", "may update, delete"),
    ],
)
async def test_doctor_fails_if_a_database_permission_or_policy_is_wrong(
    own_world: OrgEnv, statement: bytes, failing: str, quoted: str
) -> None:
    before = await server_checks(own_world)
    assert {check.state for check in before.values()} == {CheckState.OK}
    change(own_world, statement)
    failed = {
        name: check
        for name, check in (await server_checks(own_world)).items()
        if check.state is not CheckState.OK
    }
    assert [(name, check.state) for name, check in failed.items()] == [(failing, CheckState.FAIL)]
    assert quoted in failed[failing].message
    assert failed[failing].remedy


async def test_doctor_warns_if_server_and_database_clocks_differ(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = time.time()
    monkeypatch.setattr(time, "time", lambda: here + 3600)
    clock = (await server_checks(own_world))["clock"]
    assert clock.state is CheckState.WARN
    assert "apart" in clock.message


async def test_doctor_fails_if_a_rendered_document_is_empty(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnostics, "render", lambda *_: Rendered(markdown="", html=""))
    checks = {check.name: check for check in await try_everything(as_doctor(own_world))}
    assert checks["render"].state is CheckState.FAIL
    assert checks["write"].state is checks["search"].state is CheckState.OK


@pytest.mark.parametrize(
    ("free", "state"),
    [
        (diagnostics.LOW_DISK_BYTES, CheckState.OK),
        (diagnostics.LOW_DISK_BYTES - 1, CheckState.WARN),
        (diagnostics.CRITICAL_DISK_BYTES - 1, CheckState.FAIL),
    ],
)
def test_doctor_reports_a_disk_that_is_nearly_full(
    free: int, state: CheckState, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    disk = next(check for check in check_machine(Settings()) if check.name == "disk")
    assert disk.state is state
    assert (disk.remedy is None) is (state is CheckState.OK)
