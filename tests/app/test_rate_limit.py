"""Rate limit of an org: a burst of calls, then a steady rate, independent of other orgs."""

from dataclasses import dataclass, replace
from itertools import accumulate

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from org_env import AgentClient, OrgEnv, branch_condition
from tool_calls import valid_call
from waybook.app.dispatcher import OPERATIONS_PER_CALL, REPLY_BYTES_PER_CALL
from waybook.app.registry import TOOLS
from waybook.app.request.rate_limit import NANOSECONDS, LocalTimes, TokenBuckets
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.conditions.values import BUDGET
from waybook.core.decision_context import Channel
from waybook.errors import RateLimited
from waybook.store.calls import CallLog
from waybook.store.driver.database import Database
from waybook.store.driver.pool import ConnectionPool

RATES = st.integers(1, 100)
BURSTS = st.integers(1, 200)
TIMES = st.integers(0, 10**6 * NANOSECONDS)
#: Hypothesis strategy for the times between calls, in nanoseconds.
GAPS = st.lists(st.integers(0, 3 * NANOSECONDS), min_size=1, max_size=100)


@given(RATES, BURSTS, GAPS)
def test_rate_limit_never_admits_more_calls_than_burst_plus_rate(
    rate: int, burst: int, gaps: list[int]
) -> None:
    limit = TokenBuckets(rate, burst)
    let_in = [now for now in accumulate(gaps) if not limit.try_acquire("us", now)]
    for i, begun in enumerate(let_in):
        for n, ended in enumerate(let_in[i:], start=1):
            assert n <= burst + rate * (ended - begun) / NANOSECONDS


@given(RATES, BURSTS, TIMES, st.integers(1, 300))
def test_rate_limit_admits_call_after_the_retry_delay(
    rate: int, burst: int, now: int, calls: int
) -> None:
    limit = TokenBuckets(rate, burst)
    for _ in range(calls):
        wait = limit.try_acquire("us", now)
        if wait:
            retry_after = limit.rate_limited_error(wait).details["retryAfter"]
            assert isinstance(retry_after, int)
            assert retry_after >= wait
            now += retry_after * NANOSECONDS
            assert limit.try_acquire("us", now) == 0


@given(RATES, BURSTS, TIMES)
def test_rate_limit_admits_a_full_burst_of_calls_and_no_more(
    rate: int, burst: int, now: int
) -> None:
    limit = TokenBuckets(rate, burst)
    assert [bool(limit.try_acquire("us", now)) for _ in range(burst + 3)] == [False] * burst + [
        True
    ] * 3


@given(RATES, BURSTS, st.lists(st.sampled_from(["us", "them"]), max_size=400))
def test_rate_limit_of_an_org_is_independent_of_other_orgs(
    rate: int, burst: int, calls: list[str]
) -> None:
    together, alone = TokenBuckets(rate, burst), {name: TokenBuckets(rate, burst) for name in calls}
    for number, name in enumerate(calls):
        now = number * NANOSECONDS // 50
        assert together.try_acquire(name, now) == alone[name].try_acquire(name, now)


@given(RATES, BURSTS, st.lists(st.integers(0, 1_000), max_size=200))
def test_computing_the_retry_delay_does_not_count_as_a_call(
    rate: int, burst: int, orgs: list[int]
) -> None:
    limit = TokenBuckets(rate, burst)
    for number, org in enumerate(orgs):
        now = number * NANOSECONDS // 50
        assert limit.retry_after(org, now) == limit.try_acquire(org, now)


def test_rate_limit_deletes_token_buckets_of_inactive_orgs() -> None:
    times = LocalTimes()
    limit = TokenBuckets(60, 120, times)
    for org in range(10_000):
        now = org * NANOSECONDS // 100
        limit.try_acquire(org, now)
        if limit.retry_after(org, now):
            limit.is_first_refusal(org)
        assert len(times.until) <= 201, "at most the orgs of the last two seconds, and one more"
    limit.try_acquire("last", 1_000 * NANOSECONDS)
    assert [*times.until] == ["last"]


ON_POSTGRES_18 = pytest.mark.parametrize("server", ["18"], indirect=True, scope="session")


@dataclass
class Limited(AgentClient):
    """Agent of an org that may make three calls in a burst, and then two per second."""

    #: Time of the dispatcher's clock, in nanoseconds.
    now: int = 100 * NANOSECONDS

    def __post_init__(self) -> None:
        self.dispatcher.clock = lambda: self.now

    def use_up(self) -> None:
        for _ in range(3):
            self.dispatcher.require_capacity(self.caller)


def at_a_limit(agent: AgentClient, database: Database | None = None) -> Limited:
    services = agent.dispatcher.services
    services = replace(
        services, rate_limit=TokenBuckets(2, 3), database=database or services.database
    )
    return Limited(ServerDispatcher(services, CallLog(services.database)), agent.caller)


@pytest.fixture
def limited(world: OrgEnv) -> Limited:
    return at_a_limit(world.agent)


@ON_POSTGRES_18
async def test_call_over_rate_limit_is_refused_with_retry_after(limited: Limited) -> None:
    for _ in range(3):
        await limited.call("list_active_plans")
    error = await limited.refused("list_active_plans")
    assert error["code"] == "RATE_LIMITED"
    assert error["next"]["tool"] == "list_active_plans"
    assert error["next"]["why"] == f"Retry the same call after {error['details']['retryAfter']} s."
    assert error["details"] == {"retryAfter": 1, "callsPerSecond": 2, "burst": 3}
    assert "Wait 1 s, then repeat it" in error["message"]
    limited.now += error["details"]["retryAfter"] * NANOSECONDS
    await limited.call("list_active_plans")


@ON_POSTGRES_18
async def test_large_reply_counts_as_several_calls_for_the_rate_limit(agent: AgentClient) -> None:
    long = {"kind": "note", "title": "Long", "content": "x" * 100_000}
    stored, limited = await agent.call("store_research", **long), at_a_limit(agent)
    reply = await limited.call("get_artifact", artifactId=stored["artifactId"], detail=True)
    calls = 1 + len(orjson.dumps(reply)) // REPLY_BYTES_PER_CALL
    assert limited.dispatcher.retry_after(limited.caller) == (calls - 2) / 2 > 0


@ON_POSTGRES_18
async def test_expensive_condition_counts_as_several_calls_for_rate_limit(
    agent: AgentClient,
) -> None:
    expensive = "result.all(x, result.all(y, result.all(z, x + y + z >= 0)))"
    condition = branch_condition(1, expensive, "continue")
    plan = await agent.plan(1, branchingConditions=[condition])
    taken, limited = await agent.take(plan), at_a_limit(agent)
    await limited.call(
        "submit_step_result",
        stepId=taken["stepId"],
        attempt=taken["attempt"],
        resultSummary=[*range(100)],
    )
    calls = 1 + BUDGET // OPERATIONS_PER_CALL
    assert limited.dispatcher.retry_after(limited.caller) == (calls - 2) / 2


@ON_POSTGRES_18
async def test_rate_limited_call_sends_no_database_message(agent: AgentClient) -> None:
    out_of_reach = Database(ConnectionPool("host=/nowhere", timeout=0))
    limited = at_a_limit(agent, out_of_reach)
    limited.use_up()
    answers = {tool: await limited.ask(tool, await valid_call(agent, tool)) for tool in TOOLS}
    codes = {tool: str(answer.body["error"]["code"]) for tool, answer in answers.items()}  # type: ignore[index]  # an object
    assert codes == dict.fromkeys(TOOLS, "RATE_LIMITED")


@ON_POSTGRES_18
async def test_reading_documents_and_outputs_is_rate_limited(limited: Limited) -> None:
    door = limited.dispatcher
    limited.use_up()
    for read in (door.read_document, door.read_output, door.list_outputs, door.read_review):
        with pytest.raises(RateLimited):
            await read(limited.caller, "x")


@ON_POSTGRES_18
async def test_rate_limit_does_not_affect_other_orgs_or_dashboard(
    world: OrgEnv, limited: Limited
) -> None:
    limited.use_up()
    await limited.refused("list_active_plans")
    await limited.acting_as("bob", Channel.REST).refused("list_active_plans")
    await AgentClient(limited.dispatcher, world.other_org.caller).call("list_active_plans")
    await limited.acting_as("pat", Channel.DASHBOARD).call("list_active_plans")
    assert await limited.dispatcher.is_ready()


@ON_POSTGRES_18
async def test_consecutive_rate_limit_refusals_are_logged_once(limited: Limited) -> None:
    for _ in range(2):
        limited.use_up()
        for _ in range(20):
            await limited.refused("get_next_step", planId="x")
        limited.now += 10 * NANOSECONDS
    await limited.dispatcher.calls.flush()
    counting = "select count(*) from mcp_tool_call_log where error_code = 'RATE_LIMITED'"
    (rows,) = await limited.dispatcher.services.database.read_org(limited.org_id, counting)
    assert rows == [(2,)]
    assert limited.dispatcher.figures.counted["get_next_step", "RATE_LIMITED"] == 40
