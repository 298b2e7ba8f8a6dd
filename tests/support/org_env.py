"""Environment for one test: the org under test, another org with a plan, and a settable clock."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

import psycopg

from idle_connections import ReusingPool, keep_connections
from postgres_servers import ServerDatabase
from waybook.app.operations.audit_verification import audited_subjects, verify_subject
from waybook.app.operations.erasure import verify_erasures
from waybook.app.request.caller import Answer, Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.app.skills.skill import Skill, SkillFile
from waybook.app.tools.plans.skills import InstalledSkills
from waybook.bootstrap import Application
from waybook.core.changes import Rows
from waybook.core.decision_context import Channel, ReviewPolicy
from waybook.settings import Settings
from waybook.store import audit
from waybook.store.accounts import accounts
from waybook.store.accounts.accounts import add_org
from waybook.store.calls import CallLog
from waybook.store.driver.connection import LOCK_TIMEOUT
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Query, new_uuid
from waybook.store.parent_cache import ParentCache
from waybook.store.plans import load
from waybook.store.plans.cache import PlanCache
from waybook.store.runs.slots import RunCache

#: JSON of a reply or of a part of a reply; the type checker accepts any use of its values.
Body: TypeAlias = dict[str, Any]

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SET_POLICY = Query(
    "set_policy", "update org set review_policy = %(policy)s where org_id = app_org()"
)

COUNT_ENTRIES = Query("count_entries", "select count(*) from audit_entry where org_id = app_org()")

SKILLS = InstalledSkills(
    [
        Skill(
            name="survey",
            description="Look around.",
            body="Look at everything once.",
            output_media_type="text/markdown",
            formatting_instructions="Short sentences.",
            files=(SkillFile("SKILL.md", b"Look at everything once."),),
        )
    ]
)


def with_parts(services: Services, *parts: object) -> Services:
    """Return a copy of the services with these parts; each replaces the part of the same class."""
    return replace(services, parts={**services.parts, **{type(part): part for part in parts}})


def make_application(dispatcher: ServerDispatcher, settings: Settings) -> Application:
    """Return an application that has this dispatcher and does not run background loops."""
    return Application(
        dispatcher=dispatcher,
        services=dispatcher.services,
        calls=dispatcher.calls,
        settings=settings,
    )


@dataclass
class FakeClock:
    """Clock of the test database that stands still until a test advances it."""

    database: Database

    @property
    def now(self) -> datetime:
        assert self.database.frozen_now is not None
        return self.database.frozen_now

    def advance(self, **gap: float) -> None:
        """Advance the clock, for example by `minutes=31`."""
        self.database.frozen_now = self.now + timedelta(**gap)


@dataclass
class AgentClient:
    """User of an org who calls tools directly through the dispatcher, without MCP."""

    dispatcher: ServerDispatcher
    caller: Caller

    @property
    def org_id(self) -> UUID:
        return self.caller.org_id

    async def ask(self, tool: str, arguments: Mapping[str, object]) -> Answer:
        """Call a tool; return its reply or its error."""
        return await self.dispatcher.dispatch(self.caller, tool, arguments)

    async def call(self, tool: str, **arguments: object) -> Body:
        """Call a tool and return its reply; fail the test if the tool returns an error."""
        answer = await self.ask(tool, arguments)
        assert not answer.is_error, answer.body
        return answer.body

    async def refused(self, tool: str, **arguments: object) -> Body:
        """Call a tool and return its error; fail the test if the tool succeeds."""
        answer = await self.ask(tool, arguments)
        assert answer.is_error, answer.body
        error: Body = answer.body["error"]  # type: ignore[assignment]  # an error is an object
        return error

    async def plan(self, steps: int | list[Body] = 3, **more: object) -> Body:
        """Create a plan; a number for `steps` creates that many default steps."""
        named = {"name": "Rivers", "researchQuestion": "Which river is longest?"}
        if isinstance(steps, int):
            steps = [make_step(f"Look up {n}.") for n in range(1, steps + 1)]
        return await self.call("create_research_plan", **{**named, "steps": steps, **more})

    async def take(self, plan: Body, **more: object) -> Body:
        """Claim the next step; fail if no step is ready."""
        taken = await self.call("get_next_step", planId=plan["planId"], **more)
        assert taken["status"] == "step_ready", taken
        return taken

    async def submit(self, taken: Body, result: object = "found", **more: object) -> Body:
        held = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
        return await self.call("submit_step_result", **{**held, "resultSummary": result, **more})

    async def work_through(self, plan: Body) -> Body:
        """Claim and submit steps until no step is ready; return the last reply."""
        while (taken := await self.call("get_next_step", planId=plan["planId"]))[
            "status"
        ] == "step_ready":
            await self.submit(taken)
        return taken

    async def status(self, plan: Body) -> Body:
        return await self.call("get_plan_status", planId=plan["planId"])

    async def modify(self, plan: Body, action: str, **change: object) -> Body:
        modifications = [{"action": action, **change}]
        return await self.call("modify_plan", planId=plan["planId"], modifications=modifications)

    async def review(self, taken: Body, summary: str = "Right?", **more: object) -> Body:
        """Ask a person to review a claimed step."""
        named = {"stepId": taken["stepId"], "summary": summary}
        return await self.call("request_user_review", **named, **more)

    async def decide(self, plan: Body, decision: str = "approve", **more: object) -> Body:
        named = {"planId": plan["planId"], "decision": decision}
        return await self.call("submit_user_decision", **named, **more)

    async def run(
        self, dag: str = "deep-research", models: Iterable[str] = "ab", **more: object
    ) -> Body:
        """Start a run; in the string `"ab"`, each letter is the name of a model."""
        named = {"dagSlug": dag, "name": "Rivers", "input": "Which river is longest?"}
        return await self.call("start_run", **{**named, "models": [*models], **more})

    async def job(self, run: Body, **more: object) -> Body:
        """Claim the next job; fail if no job is ready."""
        taken = await self.call("get_next_job", runId=run["runId"], **more)
        assert taken["status"] == "job_ready", taken
        return taken

    async def submit_documents(
        self, job: Body, content: object = "# Found", **more: object
    ) -> Body:
        """Submit the documents of a job."""
        held = {"jobId": job["jobId"], "attempt": job["attempt"]}
        documents = [{"content": content}]
        return await self.call("submit_job_result", **{**held, "documents": documents, **more})

    async def fail_job(self, job: Body, error: str = "No.", *, retryable: bool = False) -> Body:
        held = {"jobId": job["jobId"], "attempt": job["attempt"]}
        return await self.call("fail_job", **held, error=error, retryable=retryable)

    async def work_off(self, run: Body) -> Body:
        """Claim and submit jobs until no job is ready; return the last reply."""
        while (job := await self.call("get_next_job", runId=run["runId"]))["status"] == "job_ready":
            await self.submit_documents(job)
        return job

    async def feedback(self, run: Body, stage: str, text: str = "Go on.", **more: object) -> Body:
        """Submit a person's feedback on a completed stage."""
        named = {"runId": run["runId"], "stageSlug": stage, "feedback": text}
        return await self.call("submit_stage_feedback", **named, **more)

    async def progress(self, run: Body, *, detail: bool = True) -> Body:
        return await self.call("get_run_progress", runId=run["runId"], detail=detail)

    def acting_as(self, user: str, channel: Channel = Channel.MCP) -> "AgentClient":
        return AgentClient(self.dispatcher, Caller(org_id=self.org_id, user=user, channel=channel))

    def elsewhere(self) -> "AgentClient":
        """Return this agent with empty caches, as if another server process answered its calls."""
        services = replace(
            with_parts(self.dispatcher.services, PlanCache(), RunCache()),
            step_parents=ParentCache(),
        )
        return AgentClient(ServerDispatcher(services, self.dispatcher.calls), self.caller)


def make_step(instructions: str = "Look it up.", **more: object) -> Body:
    return {"stepType": "search", "instructions": instructions, **more}


def branch_condition(after: int, expression: str, action: str, **params: object) -> Body:
    """Return a condition on the result of step `after`, as `create_research_plan` takes it."""
    condition = {"afterStepOrder": after, "conditionExpression": expression}
    return {**condition, "ifTrueAction": action, "actionParams": params}


@dataclass
class OrgEnv:
    place: ServerDatabase
    database: Database
    dispatcher: ServerDispatcher
    clock: FakeClock
    agent: AgentClient
    other_org: AgentClient
    other_org_plan: Body = field(default_factory=dict)
    #: True if a test changes the other org on purpose.
    other_org_may_change: bool = False
    #: If false, the rows are not compared with the audit at the end of the test. Some tests, such
    #: as those that disable row-level security, make this comparison impossible.
    is_sound: bool = True

    async def stored(self, org_id: UUID, plan_id: str) -> Rows:
        """Return the stored rows of a plan, in the same format as a replay of its audit."""
        statement = load.SQL["stored_rows"](plan_id=plan_id)
        return audit.read_rows((await self.database.read_org(org_id, statement))[0])

    async def set_policy(self, policy: ReviewPolicy) -> None:
        async with self.database.org_transaction(self.agent.org_id) as tx:
            await tx.commit(SET_POLICY(policy=policy))

    async def entries(self, org_id: UUID, subject_id: str) -> list[audit.SealedEntry]:
        statement = audit.SQL["entries"](subject_id=subject_id, since=0, most=100_000)
        entries: list[audit.SealedEntry]
        (entries,) = await self.database.read_org(org_id, statement)
        return entries


#: Open connections of the database owner, by database name. A new connection would take longer than
#: adding an org, so all test environments with the same database share one.
OWNERS: dict[str, psycopg.Connection] = {}


@contextmanager
def open_owner(place: ServerDatabase) -> Iterator[ServerDatabase]:
    """Open the connection of the database owner, which all test environments of `place` use."""
    with (
        psycopg.connect(place.owner_dsn, prepare_threshold=None) as connection,
        keep_connections(place.app_dsn),
    ):
        OWNERS[place.dbname] = connection
        try:
            yield place
        finally:
            del OWNERS[place.dbname]


def add_orgs(place: ServerDatabase, *org_ids: UUID) -> None:
    """Create orgs as `add_org` does, through the connection in `OWNERS` if there is one."""
    owner = OWNERS.get(place.dbname)
    if owner is None:
        for org_id in org_ids:
            add_org(place.owner_dsn, org_id, f"org-{org_id}")
        return
    text = accounts.SQL["add_org"].text.encode()
    with owner.transaction():
        for org_id in org_ids:
            owner.execute(f"set local app.org_id = '{org_id}'".encode())
            owner.execute(text, {"org_id": org_id, "slug": f"org-{org_id}"})


@asynccontextmanager
async def make_env(
    place: ServerDatabase, *, pool_size: int = 8, lock_timeout: str = LOCK_TIMEOUT
) -> AsyncIterator[OrgEnv]:
    """Yield a test environment in this database; verify the audit of both orgs at the end."""
    ours, theirs = (UUID(new_uuid()) for _ in range(2))
    add_orgs(place, ours, theirs)
    async with open_test_database(
        place, pool_size=pool_size, lock_timeout=lock_timeout
    ) as database:
        dispatcher = ServerDispatcher(
            with_parts(Services(database=database), SKILLS), CallLog(database)
        )
        world = OrgEnv(
            place=place,
            database=database,
            dispatcher=dispatcher,
            clock=FakeClock(database),
            agent=AgentClient(dispatcher, Caller(org_id=ours, user="ann", channel=Channel.MCP)),
            other_org=AgentClient(
                dispatcher, Caller(org_id=theirs, user="ned", channel=Channel.MCP)
            ),
        )
        world.other_org_plan = await world.other_org.plan(2, name="Next door")
        plan_id = world.other_org_plan["planId"]
        before = await read_state(database, theirs, plan_id)
        yield world
        if not world.is_sound:
            return
        after = await read_state(database, theirs, plan_id)
        # If the other org has not changed, its audit has not changed either and need not be
        # checked.
        changed = [ours] if after == before else [ours, theirs]
        await check_audit(dispatcher.services, *changed)
        if not world.other_org_may_change:
            assert after[0] == before[0]


async def read_state(database: Database, org_id: UUID, plan_id: str) -> tuple[Rows, int]:
    """Return the rows of a plan and the number of audit entries of its org."""
    statement = load.SQL["stored_rows"](plan_id=plan_id)
    rows, counted = await database.read_org(org_id, statement, COUNT_ENTRIES())
    return audit.read_rows(rows), int(counted[0][0])


@asynccontextmanager
async def open_test_database(
    place: ServerDatabase, *, pool_size: int = 8, lock_timeout: str = LOCK_TIMEOUT
) -> AsyncIterator[Database]:
    """Yield the test database, opened with the database role of the server; its time is noon."""
    pool = ReusingPool(place.app_dsn, size=pool_size, lock_timeout=lock_timeout)
    with closing(Database(pool, role=place.server.role)) as database:
        database.frozen_now = NOON
        yield database


async def check_audit(services: Services, *org_ids: UUID) -> None:
    """Check that the rows of these orgs equal the replayed audit, and that the audit is valid."""
    for org_id in org_ids:
        call = RequestContext(
            services=services, caller=Caller(org_id=org_id, user="judge", channel=Channel.CLI)
        )
        subjects = await audited_subjects(call)
        faults = [v for subject in subjects if not (v := await verify_subject(call, subject)).ok]
        assert faults == []
        assert [v for v in await verify_erasures(call) if not v.ok] == []
