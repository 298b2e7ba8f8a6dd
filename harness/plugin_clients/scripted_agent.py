"""Scripted agent without memory, which takes the place of a client's language model.

It decides on its next call only by the texts of the current request. After a compaction, or after
the client was killed, it therefore knows plan and step only if a hook adds them to the
conversation.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

#: Number of steps after which the agent ends its turn while it holds the next step. If no hook lets
#: it continue, it ends its turn after the first step, without holding another.
STEPS_PER_PROMPT: Final = 3
PROMPT: Final = "Go on with the plan"
SUMMARY: Final = "<summary>Some work was done.</summary>"
SESSION: Final = "main"

HELD = re.compile(r"You hold step .*?submit_step_result (\{.*?\})", re.DOTALL)
SUGGESTED = re.compile(r"You hold no step\. Next call: get_next_step (\{.*?\})")
GO_ON = re.compile(r"Do not ask whether to go on: call get_next_step (\{.*?\})")
NAMED = re.compile(PROMPT + r" (\S+)\.")


@dataclass(frozen=True)
class Call:
    tool: str
    arguments: dict[str, Any]


@dataclass
class Knowledge:
    """Facts that the agent knows from the texts of one request."""

    plan: dict[str, Any] = field(default_factory=dict)
    held: dict[str, Any] | None = None
    submitted: int = 0
    is_complete: bool = False
    is_reminded: bool = False

    def read(self, text: str) -> None:
        """Record the facts in a text: a prompt, a message of a hook, or a tool result."""
        reply = parse_reply(text)
        if reply is not None:
            self.read_reply(reply)
            return
        if PROMPT in text:
            self.submitted, self.is_reminded = 0, False
        if reminder := GO_ON.search(text):
            self.is_reminded, self.plan = True, json.loads(reminder[1])
        if named := NAMED.search(text):
            self.plan = {"planId": named[1], "sessionId": SESSION}
        if held := HELD.search(text):
            self.held = json.loads(held[1])
            self.plan = {"planId": re.findall(r"planId ([\w-]+)", text)[0], "sessionId": SESSION}
        elif suggested := SUGGESTED.search(text):
            self.held, self.plan = None, json.loads(suggested[1])

    def read_reply(self, reply: dict[str, Any]) -> None:
        """Record the facts in a tool result."""
        if reply.get("status") == "step_ready":
            named = {name: reply[name] for name in ("stepId", "attempt")}
            self.held = {**named, "sessionId": SESSION}
        elif reply.get("status") == "plan_complete":
            self.held, self.is_complete = None, True
        elif reply.get("stepStatus") == "completed":
            self.held, self.submitted = None, self.submitted + 1


def parse_reply(text: str) -> dict[str, Any] | None:
    """Return the reply of a Waybook tool in a text, or None if the text has no reply."""
    try:
        body = json.loads(text)
    except ValueError:
        return None
    return body if isinstance(body, dict) and "planId" in body else None


def decide(texts: Iterable[str]) -> Call | str:
    """Return the next tool call of the agent, or its last text for the prompt."""
    known = Knowledge()
    for text in texts:
        known.read(text)
    if known.is_complete:
        return "The plan is complete."
    if known.held is not None and known.submitted >= STEPS_PER_PROMPT:
        return "I wait for the user."
    if known.held is not None:
        result = f"Result of {known.held['stepId']}"
        return Call("submit_step_result", {**known.held, "resultSummary": result})
    if known.submitted == 1 and not known.is_reminded:
        return "The first step is done. Shall I go on?"
    if known.plan:
        return Call("get_next_step", known.plan)
    return "I do not know of a plan."
