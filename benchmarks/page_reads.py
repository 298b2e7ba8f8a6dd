"""CPU time of PostgreSQL for pages whose cost must not grow with results, jobs or plans.

The plan has 40 results of 200 kB, and the run has 17,280 jobs. All pages are requested from the
complete application. The time is that of all processes of the server, per page.
"""

from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

import psycopg

from job_cycle import DEFINITION, begin_run, call, open_stage
from limits import Check
from org_env import AgentClient
from server_cpu import find_postmaster, server_cpu_seconds
from transport.page_client import make_browser
from waybook.app.queries.search import search_everything
from waybook.app.request.request_context import RequestContext
from waybook.bootstrap import Application, start_application
from waybook.cli.demo.environment import temporary_database
from waybook.core.decision_context import Channel
from waybook.embedded_postgres.supervisor import attach
from waybook.settings_reading import read_settings

#: Maximum CPU time of PostgreSQL for a page.
MAX_POSTGRES_MS: Final = 30.0
ROUNDS: Final = 10
#: Reads before the measurement, in which statements are prepared and caches are filled.
WARM_READS: Final = 3
#: A word of every name, a word of one name, and a word of no name that many texts contain.
SEARCHES: Final = ("region", "c4ca4238a0b923820dcc509a6f75849b", "look it")
RESULTS: Final = 40
RESULT_BYTES: Final = 200_000
#: The wide stage has ten steps, each with a job for each combination of three models.
MODELS, STEPS = 12, 10
_WORKED: Final = Path(__file__).with_suffix(".sql").read_text()


async def make_long_plan(system: Application) -> tuple[object, object]:
    """Create a plan, and submit results of its steps; return the ids of plan and last step."""
    step = {"stepType": "search", "instructions": "Read the sources.", "title": "Read"}
    named = {"name": "Long", "researchQuestion": "Which?", "steps": [step] * (RESULTS + 1)}
    plan = await call(system, "create_research_plan", **named)
    held: dict[str, object] = {}
    for number in range(RESULTS):
        words = " ".join(f"{number * place % 9_973:x}" for place in range(RESULT_BYTES // 4))
        taken = await call(system, "get_next_step", planId=plan["planId"])
        held = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
        await call(system, "submit_step_result", **held, resultSummary=words[:RESULT_BYTES])
    return plan["planId"], held["stepId"]


async def make_wide_run(system: Application, admin: psycopg.Connection) -> str:
    """Start a run with 17,280 jobs; all but the last thousand are completed, and some failed."""
    definition = deepcopy(DEFINITION)
    steps = definition["stages"][1]["recipe"]["steps"]  # type: ignore[index]
    names = [f"wide-{number}" for number in range(2, STEPS + 1)]
    steps += [{**steps[0], "stepKey": name, "outputs": [{"documentKey": name}]} for name in names]
    # The fill opens the other steps, which is faster than calls.
    definition["stages"][1]["recipe"]["edges"] = [["wide", name] for name in names]  # type: ignore[index]
    await call(system, "add_dag", definition=definition)
    run = await begin_run(system, MODELS)
    await open_stage(system, run)
    admin.execute(_WORKED.replace(":run", str(run)).encode())
    admin.execute("vacuum analyze")
    return str(run)


async def check_postgres(
    name: str, read: Callable[[], Awaitable[object]], postmaster: int, rounds: int
) -> Check:
    """Measure the milliseconds of CPU that the server uses for a read, three times."""
    for _ in range(WARM_READS):
        await read()
    values = []
    for _ in range(3):
        before = server_cpu_seconds(postmaster)
        for _ in range(rounds):
            await read()
        values.append(1_000 * (server_cpu_seconds(postmaster) - before) / rounds)
    return Check(name=name, rounds=values, direction="<=", limit=MAX_POSTGRES_MS)


async def check_pages(system: Application, paths: Mapping[str, str], folder: Path) -> list[Check]:
    agent = AgentClient(system.dispatcher, system.caller(Channel.DASHBOARD))
    postmaster, checks = find_postmaster(folder), list[Check]()
    async with make_browser(agent) as browser:
        for name, path in paths.items():
            reply = await browser.get(path)
            assert reply.status_code == HTTPStatus.OK, (path, reply.status_code)
            checks.append(
                await check_postgres(name, partial(browser.get, path), postmaster, ROUNDS)
            )
    return checks


async def check_search(ctx: RequestContext, folder: Path, plans: int) -> list[Check]:
    """Measure the search page's reads as on a server where no superuser marks functions."""
    postmaster = find_postmaster(folder)
    return [
        await check_postgres(
            f"/search, {plans:,} plans: {text[:12]}",
            partial(search_everything, ctx, text, limit=5, semantic=False),
            postmaster,
            ROUNDS,
        )
        for text in SEARCHES
    ]


async def check_large_work() -> list[Check]:
    """Measure the pages of a plan with long results, and of a run with many jobs."""
    with (
        temporary_database(durable=False) as folder,
        attach(folder, durable=False) as server,
    ):
        urls = {"database_url": server.app_dsn, "owner_url": server.owner_dsn}
        options = {"data_dir": folder, "search_vectors": "portable", "migrate": "always"}
        settings = read_settings({**urls, **options}, {}).settings
        async with start_application(settings, sweeping=False) as system:
            with psycopg.connect(server.admin_dsn, autocommit=True) as admin:
                plan, step = await make_long_plan(system)
                run = await make_wide_run(system, admin)
                row = admin.execute(
                    "select id from job where run_id = %s and stage_slug = 'work' limit 1", [run]
                ).fetchone()
            assert row
            paths = {
                "plan page, 40 results of 200 kB": f"/plans/{plan}",
                "step page, result of 200 kB": f"/plans/{plan}/steps/{step}",
                "run page, 17,280 jobs": f"/runs/{run}",
                "jobs of the run": f"/runs/{run}/jobs",
                "failed jobs of the run": f"/runs/{run}/jobs?state=failed",
                "step of the run": f"/runs/{run}/steps/work/wide",
                "job of the run": f"/runs/{run}/jobs/{row[0]}",
            }
            return await check_pages(system, paths, folder)
