"""The server passes the official conformance suite in both supported versions of MCP."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from missing_programs import NODE_PACKAGES
from node_packages import Unreachable, install
from transport.conformance.overlay import lay_over
from transport.conformance.reviews import ReviewingDispatcher
from transport.conformance.suite import HERE, verdicts
from transport.fake_dispatcher import make_app, make_gateway, serve
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools

NO_SESSIONS: Final = (
    "over HTTP the server keeps no sessions, so it cannot send requests; over stdio it does"
)
NO_LOGGING: Final = "logging to the client is deprecated and not offered"
NO_PROGRESS: Final = "no tool reports progress, so every call is answered with JSON"
ONE_FORM: Final = "only reviews are tasks: a task has one form, never fails, and is not withdrawn"
NO_PUSH: Final = "clients poll tasks; the suite skips notifications about them"

# For each version of MCP, scenarios that need a feature which Waybook does not have. The test
# fails if one of these scenarios passes, or if any other scenario fails.
NOT_APPLICABLE: Final[Mapping[str, Mapping[str, str]]] = {
    "2025-11-25": {
        "logging-set-level": NO_LOGGING,
        "tools-call-with-logging": NO_LOGGING,
        "tools-call-sampling": NO_SESSIONS,
        "tools-call-with-progress": NO_PROGRESS,
        "tools-call-elicitation": NO_SESSIONS,
        "elicitation-sep1034-defaults": NO_SESSIONS,
        "elicitation-sep1330-enums": NO_SESSIONS,
        "resources-subscribe": NO_SESSIONS,
        "resources-unsubscribe": NO_SESSIONS,
        "server-session-lifecycle": NO_SESSIONS,
        "server-sse-multiple-streams": NO_SESSIONS,
        "server-sse-polling": NO_SESSIONS,
    },
    "2026-07-28": {
        "tasks-lifecycle": ONE_FORM,
        "tasks-mrtr-composition": ONE_FORM,
        "tasks-mrtr-input": ONE_FORM,
        "tasks-required-task-error": ONE_FORM,
        "tasks-status-notifications": NO_PUSH,
        "tools-call-with-progress": NO_PROGRESS,
    },
}
APPLICABLE: Final = {"2025-11-25": 21, "2026-07-28": 44}


@pytest.fixture(scope="session")
def suite() -> Path:
    try:
        return install(HERE, "conformance")
    except Unreachable as error:
        NODE_PACKAGES.skip(str(error))


@pytest.mark.conformance
@pytest.mark.parametrize("revision", NOT_APPLICABLE)
async def test_server_passes_all_applicable_scenarios_of_the_conformance_suite(
    suite: Path, revision: str, tmp_path: Path
) -> None:
    server = lay_over(
        build_server(published_tools(), make_gateway(ReviewingDispatcher()), profile="all")
    )
    app = make_app(server)
    async with serve(app) as address:
        outcomes = await verdicts(suite, f"{address}/mcp", revision, tmp_path)
    failed = {scenario for scenario, passed in outcomes.items() if not passed}
    assert failed == set(NOT_APPLICABLE[revision])
    assert len(outcomes) - len(failed) == APPLICABLE[revision]
