"""Where the demo plays: the doorway, the clock and the feed, and who may speak there."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from waybook.cli.demo.clock import SimulatedClock
from waybook.cli.demo.feed import EventLog
from waybook.cli.faults import ToolError
from waybook.doorway import TOOLS, Channel
from waybook.usecases.call import RequestContext
from waybook.wiring import Application


@dataclass
class DemoContext:
    app: Application
    clock: SimulatedClock
    feed: EventLog
    plan_id: str = ""
    run_id: str = ""
    run_complete: bool = False
    #: The job of somebody who was killed, until somebody else takes it.
    abandoned_jobs: str = ""
    #: Actors who came in while the play went on.
    later: list[asyncio.Task[None]] = field(default_factory=list)
    #: Results are counted here: how many each agent handed in, how often a person decided.
    counters: dict[str, int] = field(default_factory=dict)
    #: The same for the run.
    jobs: dict[str, int] = field(default_factory=dict)

    @property
    def call(self) -> RequestContext:
        """A call to use cases that are not tools, as the one who looks on."""
        return RequestContext(services=self.app.doorway.house, caller=self.app.caller(Channel.CLI))

    def count(self, name: str) -> None:
        """One more for this one."""
        self.counters[name] = self.counters.get(name, 0) + 1


@dataclass(frozen=True)
class Actor:
    """Somebody at the doorway: an agent over MCP, or a person."""

    name: str
    scene: DemoContext
    session: str | None = None
    channel: Channel = Channel.MCP

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool, as any client would."""
        caller = replace(self.scene.app.caller(self.channel), user=self.name)
        if self.session is not None and "session_id" in TOOLS[tool].arguments.model_fields:
            arguments["sessionId"] = self.session
        answer = await self.scene.app.doorway.dispatch(caller, tool, arguments)
        if answer.is_error:
            raise ToolError(answer.body["error"])  # type: ignore[arg-type]  # an error is an object
        return answer.body

    def say(self, said: str, *, strong: bool = False) -> None:
        """Tell the audience."""
        self.scene.feed.say(self.name, said, strong=strong)
