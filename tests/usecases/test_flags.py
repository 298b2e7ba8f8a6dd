"""Replies report hidden characters in their texts."""

import orjson

from waybook.app.request.answers import MAX_FLAGGED_REPLY_BYTES
from worlds import World, a_step

TURNED = "Pay \u202eeno on"
HIDDEN = "a\u200bb"


async def test_a_step_with_hidden_characters_says_so(world: World) -> None:
    plan = await world.agent.plan([a_step(TURNED, title=HIDDEN)])
    taken = await world.agent.take(plan)
    assert taken["instructions"] == TURNED
    assert taken["oddCharacters"] == {"title": {"zero-width": 1}, "instructions": {"bidi": 1}}


async def test_most_replies_have_no_flag(world: World) -> None:
    plan = await world.agent.plan([a_step("Größe der \U0001f469\u200d\U0001f680")])
    assert "oddCharacters" not in await world.agent.take(plan)


async def test_an_answer_given_again_has_its_flag_again(world: World) -> None:
    plan = await world.agent.plan([a_step(TURNED)])
    asked = {"planId": plan["planId"], "idempotencyKey": "k"}
    first = await world.agent.call("get_next_step", **asked)
    again = await world.agent.call("get_next_step", **asked)
    assert again == {**first, "replayed": True}


async def test_a_refusal_has_its_flag_among_its_details(world: World) -> None:
    plan = await world.agent.plan(1)
    taken = await world.agent.take(plan)
    await world.agent.call("request_user_review", stepId=taken["stepId"], summary="?")
    decided = {"planId": plan["planId"], "decision": "modify", "feedback": TURNED}
    await world.agent.call("submit_user_decision", **decided)
    refused = await world.agent.refused("submit_user_decision", **decided)
    assert refused["details"]["feedback"] == TURNED
    assert refused["details"]["oddCharacters"] == {"error.details.feedback": {"bidi": 1}}


async def test_a_packet_counts_its_flag_among_its_bytes(world: World) -> None:
    steps = [a_step(TURNED * 900, title=HIDDEN) for _ in range(6)]
    plan = await world.agent.plan(steps)
    for tokens in (500, 1_000, 12_000):
        told = await world.agent.call(
            "get_research_context", planId=plan["planId"], budgetTokens=tokens
        )
        assert told["oddCharacters"]
        assert len(orjson.dumps(told)) <= 4 * tokens


async def test_no_flag_makes_a_reply_too_long(world: World) -> None:
    steps = [a_step(title=f"{TURNED * 10}{n}") for n in range(200)]
    plan = await world.agent.plan(steps)
    told = await world.agent.status(plan)
    assert told["oddCharacters"]["more"] > 50
    assert len(orjson.dumps(told)) <= MAX_FLAGGED_REPLY_BYTES
