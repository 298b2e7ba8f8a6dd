"""Background loops continue after errors, and end only when they are canceled."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
import pytest

from org_env import OrgEnv
from patience import PATIENCE_SECONDS
from waybook import background, loops
from waybook.app.operations.checks import CheckState
from waybook.app.operations.diagnostics import about_loops
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import MAX_FAILURES_IN_A_ROW, Services
from waybook.errors import Unavailable
from waybook.settings import Settings

ERRORS = [psycopg.InternalError("cache lookup failed"), RuntimeError("odd"), Unavailable("gone")]

Loop = Callable[[Services], Awaitable[None]]


async def waiting(seconds: float) -> None:
    """Give control to the event loop once, instead of waiting."""
    assert 0 <= seconds <= loops.MAX_BACKOFF_SECONDS
    await asyncio.sleep(0)


class Turns:
    """Body of a background loop: raises these errors, one in each round, and then ends the test."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.ended = [*errors], asyncio.Event()

    async def __call__(self, *_: object, **__: object) -> int:
        if self.errors:
            raise self.errors.pop(0)
        self.ended.set()
        return 0


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_background_loop_continues_after_errors_but_logs_traceback_once(
    alone: OrgEnv, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    services, turns, seen = alone.dispatcher.services, Turns(error, error, error), []

    async def turn() -> bool:
        seen.append(services.loops.failures.get("work", 0))
        await turns()
        return True

    with caplog.at_level(logging.WARNING):
        await loops.repeat(services, "work", turn, waiting)
    assert seen == [0, 1, 2, 3]
    assert services.loops.failures == {}
    assert [record.message for record in caplog.records] == [
        f"work will be tried again: {error}"
    ] * 3
    traced = [record for record in caplog.records if record.exc_info]
    assert len(traced) == (0 if isinstance(error, Unavailable) else 1)


async def test_background_loop_can_be_canceled_during_work_or_pause(alone: OrgEnv) -> None:
    services, begun = alone.dispatcher.services, asyncio.Event()

    async def turn() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def broken() -> None:
        begun.set()
        raise RuntimeError("odd")

    async def for_ever(_: float) -> None:
        await asyncio.Event().wait()

    for work in (turn, broken):
        begun.clear()
        task = asyncio.create_task(loops.repeat(services, "work", work, for_ever))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


LOOPS: dict[str, tuple[str, Loop]] = {
    "sweep": (
        "background.sweep_all_orgs",
        lambda services: background.stall_sweep_loop(services, 0),
    ),
    "render": ("background._in_every_org", lambda services: background.render_loop(services, 0)),
    "index": ("background.index_all_orgs", lambda services: background.index_loop(services, 0)),
    "deliver": (
        "background._in_every_org",
        lambda services: background.delivery_loop(services, 0),
    ),
    "lead": ("background.hold_leadership", background.leadership_loop),
    "retain": (
        "background.retain",
        lambda services: background.retention_loop(services, "", Settings()),
    ),
    "send": ("loops.pg_notify.send_pending", loops.event_publish_loop),
    "listen": ("loops.pg_notify.listen", loops.event_listen_loop),
    "look": (
        "loops.pg_notify.ChangePoller.poll",
        lambda services: loops.change_poll_loop(services, 0),
    ),
}


@pytest.mark.parametrize("name", LOOPS)
async def test_every_background_loop_continues_after_an_unexpected_error(
    alone: OrgEnv, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    services, (target, loop) = alone.dispatcher.services, LOOPS[name]
    turns = Turns(psycopg.InternalError("cache lookup failed"), RuntimeError("odd"))
    services.bus.is_wanted.set()
    services.bus.has_outgoing.set()
    services.leadership.is_leader = services.leadership.delivers = True
    monkeypatch.setattr(background, "WARMUP_DELAY_SECONDS", 0)
    monkeypatch.setattr(loops, "MIN_BACKOFF_SECONDS", 0)
    monkeypatch.setattr(f"waybook.{target}", turns)
    task = asyncio.ensure_future(loop(services))
    await asyncio.wait_for(turns.ended.wait(), PATIENCE_SECONDS)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert turns.errors == []


def test_health_check_fails_after_a_background_loop_fails_repeatedly(alone: OrgEnv) -> None:
    loops = alone.dispatcher.services.loops
    assert [check.state for check in about_loops(loops)] == [CheckState.OK]
    loops.note_failure("rendering", RuntimeError("password=hunter2hunter2"))
    (warning,) = about_loops(loops)
    assert warning.state is CheckState.WARN
    assert "hunter2" not in warning.message
    for _ in range(MAX_FAILURES_IN_A_ROW):
        loops.note_failure("rendering", RuntimeError("odd"))
    assert [check.state for check in about_loops(loops)] == [CheckState.FAIL]


async def test_failure_in_an_org_does_not_stop_background_work_for_other_orgs(
    own_world: OrgEnv,
) -> None:
    services, seen = own_world.dispatcher.services, list[UUID]()

    async def work(ctx: RequestContext) -> int:
        seen.append(ctx.caller.org_id)
        if len(seen) == 1:
            raise Unavailable("not here")
        return 1

    with pytest.raises(Unavailable, match="not here"):
        await background._in_every_org(services, work)
    assert sorted(seen) == sorted(await services.database.list_org_ids())
    assert len(seen) > 1


def test_health_check_of_background_loops_hides_text_of_database_errors(alone: OrgEnv) -> None:
    loops = alone.dispatcher.services.loops
    loops.note_failure("work", psycopg.errors.UniqueViolation("Key (slug)=(acme) already exists"))
    (finding,) = about_loops(loops)
    assert "acme" not in finding.message
    assert "UniqueViolation" in finding.message
