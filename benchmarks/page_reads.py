"""CPU time of PostgreSQL for pages whose cost must not grow with results, jobs or plans.

The plan has 40 results of 200 kB, and the run has 17,496 jobs. All pages are requested from the
complete application. The time is that of all processes of the server, per page.
"""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Final

import psycopg

from job_cycle import DEFINITION, begin_run, call, open_stage
from limits import Check
from org_env import AgentClient
from server_cpu import find_postmaster, server_cpu_seconds
from transport.page_client import Browser, make_browser
from waybook.bootstrap import Application, start_application
from waybook.cli.demo.environment import temporary_database
from waybook.core.decision_context import Channel
from waybook.embedded_postgres.supervisor import attach
from waybook.settings_reading import read_settings

#: Maximum CPU time of PostgreSQL for a page.
MAX_POSTGRES_MS: Final = 30.0
RESULTS: Final = 40
RESULT_BYTES: Final = 200_000
#: The wide stage has three steps, each with a job for each combination of three models.
MODELS: Final = 18
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
    """Start a run with 17,496 jobs; all but the last thousand are completed, and some failed."""
    definition = deepcopy(DEFINITION)
    steps = definition["stages"][1]["recipe"]["steps"]  # type: ignore[index]
    for name in ("second", "third"):
        outputs = [{"documentKey": name}]
        steps.append({**steps[0], "stepKey": name, "outputs": outputs})
    await call(system, "add_dag", definition=definition)
    run = await begin_run(system, MODELS)
    await open_stage(system, run)
    admin.execute(_WORKED.replace(":run", str(run)).encode())
    admin.execute("vacuum analyze")
    return str(run)


async def postgres_ms(browser: Browser, path: str, postmaster: int, rounds: int) -> float:
    """Return the milliseconds of CPU that the server uses for a page."""
    for _ in range(3):
        reply = await browser.get(path)
        assert reply.status_code == 200, (path, reply.status_code)
    before = server_cpu_seconds(postmaster)
    for _ in range(rounds):
        await browser.get(path)
    return 1_000 * (server_cpu_seconds(postmaster) - before) / rounds


async def measure_pages(
    system: Application, paths: Mapping[str, str], folder: Path, rounds: int, repeats: int = 3
) -> list[Check]:
    postmaster = find_postmaster(folder)
    agent = AgentClient(system.dispatcher, system.caller(Channel.DASHBOARD))
    async with make_browser(agent) as browser:
        return [
            Check(
                name=name,
                rounds=[
                    await postgres_ms(browser, path, postmaster, rounds) for _ in range(repeats)
                ],
                direction="<=",
                limit=MAX_POSTGRES_MS,
            )
            for name, path in paths.items()
        ]


async def measure_large_work(rounds: int) -> list[Check]:
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
                "run page, 17,496 jobs": f"/runs/{run}",
                "jobs of the run": f"/runs/{run}/jobs",
                "failed jobs of the run": f"/runs/{run}/jobs?state=failed",
                "stage of the run": f"/runs/{run}/stages/work",
                "step of the run": f"/runs/{run}/steps/work/wide",
                "job of the run": f"/runs/{run}/jobs/{row[0]}",
                "documents of the run": f"/runs/{run}/documents",
            }
            return await measure_pages(system, paths, folder, rounds)


if __name__ == "__main__":
    import uvloop

    from limits import finish

    finish("page-reads", uvloop.run(measure_large_work(20)))
