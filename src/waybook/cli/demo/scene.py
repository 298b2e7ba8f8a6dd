"""Where the demo plays: the doorway, the clock and the feed, and who may speak there."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from waybook.cli.demo.clock import StoryClock
from waybook.cli.demo.feed import Feed
from waybook.cli.faults import Told
from waybook.doorway import TOOLS, Channel
from waybook.usecases.call import Call
from waybook.wiring import Running


@dataclass
class Scene:
    house: Running
    clock: StoryClock
    feed: Feed
    plan_id: str = ""
    run_id: str = ""
    run_over: bool = False
    #: The job of somebody who was killed, until somebody else takes it.
    left_behind: str = ""
    #: Actors who came in while the play went on.
    later: list[asyncio.Task[None]] = field(default_factory=list)
    #: Results are counted here: how many each agent handed in, how often a person decided.
    tally: dict[str, int] = field(default_factory=dict)
    #: The same for the run.
    jobs: dict[str, int] = field(default_factory=dict)

    @property
    def call(self) -> Call:
        """A call to use cases that are not tools, as the one who looks on."""
        return Call(house=self.house.doorway.house, caller=self.house.caller(Channel.CLI))

    def count(self, name: str) -> None:
        """One more for this one."""
        self.tally[name] = self.tally.get(name, 0) + 1


@dataclass(frozen=True)
class Actor:
    """Somebody at the doorway: an agent over MCP, or a person."""

    name: str
    scene: Scene
    session: str | None = None
    channel: Channel = Channel.MCP

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool, as any client would."""
        caller = replace(self.scene.house.caller(self.channel), user=self.name)
        if self.session is not None and "session_id" in TOOLS[tool].arguments.model_fields:
            arguments["sessionId"] = self.session
        answer = await self.scene.house.doorway.enter(caller, tool, arguments)
        if answer.is_error:
            raise Told(answer.body["error"])  # type: ignore[arg-type]  # an error is an object
        return answer.body

    def say(self, said: str, *, strong: bool = False) -> None:
        """Tell the audience."""
        self.scene.feed.say(self.name, said, strong=strong)
