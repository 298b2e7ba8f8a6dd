"""Sample data that does not fit easily on pages: long names, and many plans and runs.

Pages must stay readable with this data. Calls of agents create it.
"""

from dataclasses import dataclass, replace

from org_env import AgentClient, Body, OrgEnv, make_step
from run_documents import render_all
from sample_definitions import make_definition, make_recipe_step, make_stage

#: Names that do not fit easily on pages: long, without spaces, with markup, or from right to left.
LONG_NAMES = (
    (
        "Nightly check of every invoice of the last twelve months against the ledger of the bank, "
        "including corrections, refunds and the accounts of subsidiaries in four countries"
    ),
    "migrate_customer_billing_records_from_legacy_warehouse_to_partitioned_store_without_downtime",
    'EU AI Act: duties of a deployer of high-risk systems <compared> & "quoted"',
    "مقارنة بين ثلاثة عروض لإعادة كتابة نظام الفواتير",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft, report",
)
MODELS = ("claude-opus-4.5", "gpt-5.2-codex", "gemini-3-pro-preview", "mistral-large-2512")
TABLE = """The three proposals differ in **cost** and in *risk*:

| proposal | cost per year | time to build | largest risk |
|---|---:|---|---|
| keep the monolith | 410,000 € | none | the vendor ends support in 2027 |
| two services | 260,000 € | 5 months | a double write while we migrate |
| buy a product | 530,000 € | 2 months | no access to the ledger |

Which one may I plan in detail?"""
ERROR = (
    "HTTPError: 503 Service Unavailable for url: https://archive.example.org/api/v2/search?"
    "q=billing&page=118&sort=relevance: upstream connect error or disconnect/reset before headers"
)
CLIENTS = ("claude-code", "cursor-vscode", "gemini-cli-mcp-client", "codex-mcp-client")
LONG_SESSIONS = (
    "2030-01-01-billing-rewrite-compare-proposals-with-finance-and-the-ledger-team",
    "0199c3a1-7f2e-7cc2-9d55-1f4c0f6d2b11",
    "مراجعة الفواتير",
)
PLANS = 60
RUNS = 10
BIG = "every-invoice"
BIG_STEPS = 500


@dataclass(frozen=True, slots=True)
class CrowdedOrg:
    stalled: Body
    failing: Body
    reviewed: Body
    big_run: Body
    failed_run: Body
    failed_job: Body
    dialectic_run: Body
    output: Body


def plan_name(number: int) -> str:
    return f"{LONG_NAMES[number % len(LONG_NAMES)]} ({number})"


def plan_steps(number: int, count: int) -> list[Body]:
    titles = ("Read the sources", "Compare figures of all quarters", "Write", "Ask the ledger team")
    return [
        make_step(ERROR, title=f"{titles[n % 4]} of {plan_name(number)}"[:200])
        for n in range(count)
    ]


def big_definition() -> Body:
    """Return a workflow with 500 steps in 25 parallel chains of 20 steps."""
    keys = [f"invoice_{n:03}" for n in range(1, BIG_STEPS + 1)]
    lines = 25
    steps = [
        make_recipe_step(
            key,
            "all_to_one",
            name=f"Check invoices of day {n + 1} against the ledger",
            inputsRequired=[] if n < lines else [{"documentKey": keys[n - lines]}],
        )
        for n, key in enumerate(keys)
    ]
    edges = [(keys[n - lines], key) for n, key in enumerate(keys) if n >= lines]
    return make_definition(BIG, make_stage("all", *steps, edges=edges), name="Every invoice")


async def create_crowded_org(world: OrgEnv) -> CrowdedOrg:
    """Create 60 plans and 10 runs in all states; time passes between them."""
    agent = world.agent
    await _completed_and_failed_plans(agent)
    waiting = await _stalled_candidates(world)
    runs = await _runs(agent)
    world.clock.advance(minutes=45)
    for plan in waiting:
        await agent.status(plan)
    failing = await _plans_with_failed_steps(agent)
    reviewed = await _reviews(world)
    for n in range(40, PLANS):
        made = await agent.acting_as(f"agent-{n % 3}").plan(plan_steps(n, 4), name=plan_name(n))
        for _ in range(n % 3):
            await agent.acting_as(f"agent-{n % 3}").take(made, another=True)
        world.clock.advance(seconds=20)
    await _agents(world)
    big_run, failed_run, failed_job, dialectic_run = runs
    return CrowdedOrg(
        stalled=waiting[0],
        failing=failing,
        reviewed=reviewed,
        big_run=big_run,
        failed_run=failed_run,
        failed_job=failed_job,
        dialectic_run=dialectic_run,
        output=await _output(agent, failing),
    )


async def _agents(world: OrgEnv) -> None:
    """Record usage of agents with different client programs and long session names."""
    plan = await world.agent.plan(plan_steps(0, 12), name=plan_name(0))
    for n, session in enumerate((*LONG_SESSIONS, "")):
        caller = replace(world.agent.caller, client=CLIENTS[n % len(CLIENTS)], user="local")
        agent = AgentClient(world.dispatcher, caller)
        named = {"sessionId": session} if session else {}
        taken = await agent.take(plan, another=True, **named)
        usage = {"inputTokens": 81_000 * (n + 1), "outputTokens": 9_400, "costUsd": 1.35 * n}
        await agent.submit(taken, **named, usage={**usage, "model": MODELS[n % len(MODELS)]})
        await agent.take(plan, another=True, **named)
    await world.dispatcher.calls.flush()


async def _output(agent: AgentClient, plan: Body) -> Body:
    head = ",".join(f"quarter {n} of the fiscal year" for n in range(1, 13))
    row = ",".join(["410000", LONG_NAMES[1], *["n/a"] * 10])
    written = {"mediaType": "text/csv", "title": LONG_NAMES[0], "content": f"{head}\n{row}\n" * 20}
    return await agent.call("store_research_output", planId=plan["planId"], **written)


async def _completed_and_failed_plans(agent: AgentClient) -> None:
    """Create plans 0 to 20, of which 18 are completed, two failed, and one is canceled."""
    for n in range(18):
        await agent.work_through(await agent.plan(plan_steps(n, 2), name=plan_name(n)))
    fail = {"conditionExpression": "true", "ifTrueAction": "fail", "afterStepOrder": 1}
    for n in (18, 19):
        conditions = [{**fail, "actionParams": {"reason": ERROR}}]
        plan = await agent.plan(plan_steps(n, 2), name=plan_name(n), branchingConditions=conditions)
        await agent.submit(await agent.take(plan))
    plan = await agent.plan(plan_steps(20, 2), name=plan_name(20))
    await agent.modify(plan, "cancel_plan", reason="The contract was signed without it.")


async def _stalled_candidates(world: OrgEnv) -> list[Body]:
    """Create plans 21 to 25, which stall after the clock is advanced."""
    plans = []
    for n in range(21, 26):
        plans.append(await world.agent.plan(plan_steps(n, 6), name=plan_name(n)))
        await world.agent.acting_as(f"night-shift-{n}").take(plans[-1])
    return plans


async def _plans_with_failed_steps(agent: AgentClient) -> Body:
    """Create plans 26 to 35, each with one or two failed steps."""
    plan: Body = {}
    for n in range(26, 36):
        plan = await agent.plan(plan_steps(n, 12), name=plan_name(n))
        for _ in range(1 + n % 2):
            taken = await agent.take(plan, another=True)
            await agent.modify(plan, "fail_step", stepId=taken["stepId"], reason=ERROR)
    return plan


async def _reviews(world: OrgEnv) -> Body:
    """Create plans 36 to 39, which await a review; its question and result contain a table."""
    plan: Body = {}
    for n in range(36, 40):
        plan = await world.agent.plan(plan_steps(n, 3), name=plan_name(n))
        taken = await world.agent.take(plan)
        await world.agent.review(
            taken,
            summary=TABLE,
            questions=[f"Which of the proposals {n} may be planned in detail, and by when?"],
            resultSummary={"answer": TABLE, "sources": [ERROR] * 3},
        )
        world.clock.advance(minutes=7)
    return plan


async def _fail_job(agent: AgentClient, run: Body) -> Body:
    job = await agent.job(run)
    await agent.fail_job(job, ERROR)
    return job


async def _runs(agent: AgentClient) -> tuple[Body, Body, Body, Body]:
    """Create 10 runs; return the run of 500 steps, a failed run, its job, and a `dialectic` run."""
    await agent.call("add_dag", definition=big_definition())
    big = await agent.run(BIG, MODELS, name=LONG_NAMES[0])
    for _ in range(64):
        await agent.submit_documents(await agent.job(big), TABLE)
    await _fail_job(agent, big)
    failed = await agent.run(models=MODELS, name=LONG_NAMES[1])
    await agent.work_off(failed)
    await agent.feedback(failed, "scope")
    failed_job = await _fail_job(agent, failed)
    dialectic = await agent.run("dialectic", MODELS, name=LONG_NAMES[2])
    await agent.work_off(dialectic)
    await agent.feedback(dialectic, "thesis")
    for _ in range(8):
        await agent.submit_documents(await agent.job(dialectic), TABLE)
    waiting = await agent.run(models=MODELS[:2], name=LONG_NAMES[3])
    await agent.work_off(waiting)
    done = await agent.run(models=MODELS[:1], name=LONG_NAMES[4])
    for stage in ("scope", "gather", ""):
        await agent.work_off(done)
        if stage:
            await agent.feedback(done, stage)
    canceled = await agent.run(models=MODELS[:1], name=f"{LONG_NAMES[0]} (canceled)")
    await agent.call("cancel_run", runId=canceled["runId"], reason=TABLE[:90])
    for n in range(RUNS - 6):
        run = await agent.run(models=MODELS, name=f"{LONG_NAMES[n]} (run {n})")
        await agent.acting_as(f"worker-{n}").job(run)
    await render_all(agent)
    return big, failed, failed_job, dialectic
