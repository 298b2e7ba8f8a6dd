from org_env import NOON, AgentClient


async def test_ping_returns_database_time(agent: AgentClient) -> None:
    answer = await agent.call("ping")
    assert answer["status"] == "ok"
    assert answer["now"] == NOON.isoformat()
    assert answer["next"]["tool"] == "list_active_plans"


async def test_ping_rejects_any_argument(agent: AgentClient) -> None:
    error = await agent.refused("ping", planId="x")
    assert error["code"] == "INVALID_INPUT"
