"""Reports of hidden characters in the texts of a reply."""

import orjson

from org_env import OrgEnv, make_step
from waybook.app.request.answers import MAX_FLAGGED_REPLY_BYTES

TURNED = "Pay \u202eeno on"
HIDDEN = "a\u200bb"


async def test_get_next_step_reports_hidden_characters_in_the_step(world: OrgEnv) -> None:
    plan = await world.agent.plan([make_step(TURNED, title=HIDDEN)])
    taken = await world.agent.take(plan)
    assert taken["instructions"] == TURNED
    assert taken["oddCharacters"] == {"title": {"zero-width": 1}, "instructions": {"bidi": 1}}


async def test_reply_without_hidden_characters_has_no_flag(world: OrgEnv) -> None:
    plan = await world.agent.plan([make_step("Größe der \U0001f469\u200d\U0001f680")])
    assert "oddCharacters" not in await world.agent.take(plan)


async def test_repeated_call_returns_the_hidden_character_flags_again(world: OrgEnv) -> None:
    plan = await world.agent.plan([make_step(TURNED)])
    args = {"planId": plan["planId"], "idempotencyKey": "k"}
    first = await world.agent.call("get_next_step", **args)
    again = await world.agent.call("get_next_step", **args)
    assert again == {**first, "replayed": True}


async def test_error_that_quotes_feedback_reports_hidden_characters_in_text(world: OrgEnv) -> None:
    plan = await world.agent.plan(1)
    taken = await world.agent.take(plan)
    await world.agent.call("request_user_review", stepId=taken["stepId"], summary="?")
    decided = {"planId": plan["planId"], "decision": "modify", "feedback": TURNED}
    await world.agent.call("submit_user_decision", **decided)
    refused = await world.agent.refused("submit_user_decision", **decided)
    assert refused["details"]["feedback"] == TURNED
    assert refused["details"]["oddCharacters"] == {"error.details.feedback": {"bidi": 1}}


async def test_research_context_with_hidden_characters_fits_the_token_budget(world: OrgEnv) -> None:
    steps = [make_step(TURNED * 900, title=HIDDEN) for _ in range(6)]
    plan = await world.agent.plan(steps)
    for tokens in (500, 1_000, 12_000):
        reply = await world.agent.call(
            "get_research_context", planId=plan["planId"], budgetTokens=tokens
        )
        assert reply["oddCharacters"]
        assert len(orjson.dumps(reply)) <= 4 * tokens


async def test_reply_with_many_hidden_character_flags_has_limited_size(world: OrgEnv) -> None:
    steps = [make_step(title=f"{TURNED * 10}{n}") for n in range(200)]
    plan = await world.agent.plan(steps)
    reply = await world.agent.status(plan)
    assert reply["oddCharacters"]["more"] > 50
    assert len(orjson.dumps(reply)) <= MAX_FLAGGED_REPLY_BYTES
