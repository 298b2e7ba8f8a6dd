"""Callers with the properties of one call."""

from dataclasses import replace
from uuid import UUID

from waybook.app.request.caller import Caller, WaitHooks
from waybook.core.decision_context import Channel, Scope


async def refuse() -> bool:
    return False


def test_caller_keeps_all_fields_when_call_details_are_added() -> None:
    caller = Caller(
        org_id=UUID(int=1),
        user="ann",
        channel=Channel.REST,
        scopes=frozenset({Scope.PLAN_READ}),
        credential="token:1",
    )
    hooks = WaitHooks(still_authorized=refuse)
    changed = caller.with_call(rate_counted=True, client="claude-code", hooks=hooks)
    assert changed == replace(caller, rate_counted=True, client="claude-code", hooks=hooks)
    assert (changed.client, changed.hooks) == ("claude-code", hooks)
