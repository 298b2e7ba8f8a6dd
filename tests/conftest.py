"""Configuration of pytest: test layers, Hypothesis, network guard, temporary files.

pytest imports this file before all tests, so it does not import the database driver or the
application. Database fixtures are in `database_fixtures.py`.
"""

import asyncio
import gc
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
import uvloop
from hypothesis import HealthCheck, find, settings, strategies

import run_place
from citus.left_out import reason_of
from layers import MARKERS, WITHOUT_DATABASE, is_repetition, layer_of
from missing_programs import not_run
from network_guard_report import fail_on_network_use, recorded_attempts, start_guard, stop_guard
from run_place import CITUS

settings.register_profile(
    "steady",
    max_examples=50,
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.register_profile(
    "searching", parent=settings.get_profile("steady"), max_examples=100, derandomize=False
)
settings.register_profile("quick", parent=settings.get_profile("steady"), max_examples=25)
PROFILE = os.environ.get("WAYBOOK_HYPOTHESIS", "steady")
settings.load_profile(PROFILE)

ALIVE = pytest.StashKey[int]()
LEFT_OUT = pytest.StashKey[Counter[str]]()
LEFT_OUT_BY_WORKER = "waybook_left_out"
DATABASE_FIXTURES = "database_fixtures"


def pytest_configure(config: pytest.Config) -> None:
    """Create the directory of this test run, unless the parent process has created it."""
    # A shell lets background jobs ignore SIGINT, and programs under test would inherit this.
    # Restore the default.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    if run_place.PLACE not in os.environ:
        config.stash[ALIVE] = run_place.open_place()
    config.pluginmanager.import_plugin("failure_reports")
    start_guard()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse paths that do not exist, before worker processes start.

    Otherwise, the workers would find no tests, and pytest would report no error.
    """
    for argument in session.config.args:
        path = session.config.invocation_params.dir / argument.partition("::")[0]
        if not path.exists():
            raise pytest.UsageError(f"file or directory not found: {path}")


def pytest_unconfigure(config: pytest.Config) -> None:
    stop_guard()
    if ALIVE in config.stash:
        run_place.close_place(config.stash[ALIVE])


# Collection and selection of tests.


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Exclude the objects that pytest creates while it collects tests from garbage collection.

    Collecting tests creates about a million objects that stay in use, and garbage collection would
    take a third of the time of collecting.
    """
    # From Python 3.14 on, Hypothesis fails if `gc.freeze` comes before its first run, so let it run
    # here.
    find(strategies.none(), lambda _: True)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector: pytest.Collector) -> None:
    """Load the database fixtures before the first test file that may need them."""
    if isinstance(collector, pytest.Module) and layer_of(collector.path) not in WITHOUT_DATABASE:
        collector.config.pluginmanager.import_plugin(DATABASE_FIXTURES)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Mark every test with its layer, so that the option `-m` can select a layer."""
    # Begin with the browser tests, which take longest. Otherwise, one process would still run them
    # at the end while the others have nothing to do.
    items.sort(key=lambda item: item.path.parent.name != "browser")
    for item in items:
        layer = layer_of(item.path)
        item.add_marker(layer)
        if layer in WITHOUT_DATABASE and (fixtures := database_fixtures(item)):
            raise pytest.UsageError(f"{item.nodeid} is in layer {layer} but uses {fixtures}")
        if runs_on_fifteen(item):
            repeated = is_repetition(item.path) and not item.get_closest_marker("every_server")
            item.add_marker("slow" if repeated else "pg15")
        if PROFILE == "quick":
            limit_examples(item)
    yield
    if CITUS in os.environ:
        leave_out(config, items)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove tests that cannot run on a Citus cluster, and count them by reason."""
    reasons = {item: reason_of(item.nodeid, frozenset(item.fixturenames)) for item in items}  # type: ignore[attr-defined]  # an item of a test function
    items[:] = [item for item in items if reasons[item] is None]
    counts = Counter(why for why in reasons.values() if why is not None)
    config.stash[LEFT_OUT] = counts
    if hasattr(config, "workeroutput"):
        # Every worker process collects all tests, so all report the same counts.
        config.workeroutput[LEFT_OUT_BY_WORKER] = dict(counts)


class WorkerNode(Protocol):
    """Worker process of pytest-xdist, as the controller process represents it."""

    config: pytest.Config
    #: Values that the worker reported at its end; missing if it crashed.
    workeroutput: dict[str, dict[str, int]]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerNode) -> None:
    """Keep the counts that a worker reported, for the summary."""
    if counts := getattr(node, "workeroutput", {}).get(LEFT_OUT_BY_WORKER):
        node.config.stash[LEFT_OUT] = Counter[str](counts)


def database_fixtures(item: pytest.Item) -> list[str]:
    if not isinstance(item, pytest.Function):
        return []
    definitions = item._fixtureinfo.name2fixturedefs
    return [
        name
        for name, fixture_defs in definitions.items()
        if fixture_defs[-1].func.__module__ == DATABASE_FIXTURES
    ]


def runs_on_fifteen(item: pytest.Item) -> bool:
    """Return whether the test's parameter `server` is PostgreSQL 15."""
    return isinstance(item, pytest.Function) and (
        hasattr(item, "callspec") and item.callspec.params.get("server") == "15"
    )


def limit_examples(item: pytest.Item) -> None:
    """Limit the number of Hypothesis examples of a test to the maximum of the active profile.

    A private attribute is used, because Hypothesis has no public way to change the settings of a
    test.
    """
    test: Any = getattr(item, "obj", None)
    if getattr(test, "is_hypothesis_test", False):
        own: settings = test._hypothesis_internal_use_settings
        most = settings.get_profile(PROFILE).max_examples
        test._hypothesis_internal_use_settings = settings(
            own, max_examples=min(own.max_examples, most)
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report how many tests did not run: they lack a program, or cannot run on a cluster."""
    for why, count in terminalreporter.config.stash.get(LEFT_OUT, Counter()).items():
        terminalreporter.line(f"{count} tests were not run on the cluster: {why}")
    skipped = terminalreporter.stats.get("skipped", [])
    if lines := not_run([str(report.longrepr) for report in skipped]):
        terminalreporter.section("not run", sep="!", red=True)
        for line in lines:
            terminalreporter.line(line)


# Hooks and fixtures applied to every test.


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run asynchronous tests on uvloop, as the server does."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def loopback_only() -> Iterator[None]:
    """Fail each test that tries to connect to another machine, even if it catches the error."""
    yield
    fail_on_network_use(recorded_attempts())
