"""ping."""

from worlds import NOON, Agent


async def test_ping_answers_with_the_time_of_the_database(agent: Agent) -> None:
    answer = await agent.call("ping")
    assert answer["status"] == "ok"
    assert answer["now"] == NOON.isoformat()
    assert answer["next"]["tool"] == "list_active_plans"


async def test_ping_takes_no_arguments(agent: Agent) -> None:
    error = await agent.refused("ping", planId="x")
    assert error["code"] == "INVALID_INPUT"
