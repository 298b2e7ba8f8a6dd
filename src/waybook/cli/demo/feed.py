"""What happens in the demo, line by line."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from rich.text import Text

from waybook.cli.demo.clock import SimulatedClock

ENGINE = "waybook"
STYLES = {"ada": "cyan", "ben": "blue", "cleo": "magenta", "mira": "green", ENGINE: "bold"}


@dataclass(frozen=True, slots=True)
class Line:
    at: datetime
    who: str
    text_body: str
    #: A moment worth noticing.
    strong: bool = False

    def text(self) -> Text:
        """The line, coloured by who acts."""
        return Text.assemble(
            (f"{self.at:%H:%M} ", "dim"),
            (f"{self.who:<8}", STYLES[self.who.partition("-")[0]]),
            (self.text_body, "bold" if self.strong else ""),
        )


@dataclass
class EventLog:
    """The lines so far; whoever listens hears each as it comes."""

    clock: SimulatedClock
    lines: list[Line] = field(default_factory=list)
    listener: Callable[[Line], None] | None = None

    def say(self, who: str, said: str, *, strong: bool = False) -> None:
        """Add a line."""
        line = Line(self.clock.now, who, said, strong)
        self.lines.append(line)
        self.clock.pause_to_read()
        if self.listener is not None:
            self.listener(line)
