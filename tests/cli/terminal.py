"""Test terminal: runs commands in the test process, on an embedded database."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest
from click.testing import CliRunner, Result

from waybook.cli.app import app
from waybook.cli.runtime import AppSession, open_app
from waybook.cli.terminal import rows
from waybook.core.decision_context import Channel
from waybook.settings_reading import read_settings

Body: TypeAlias = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Terminal:
    data_dir: Path

    def run(
        self, *words: str, columns: int = 80, lines: int = 24, typed: str | None = None
    ) -> Result:
        environment = {
            "WAYBOOK_DATA_DIR": str(self.data_dir),
            "WAYBOOK_CONFIG": str(self.data_dir / "no-config.toml"),
            "COLUMNS": str(columns),
            "LINES": str(lines),
            "NO_COLOR": "1",
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows, "is_terminal", lambda: True)
            return CliRunner().invoke(app, words, input=typed, env=environment)

    def say(self, *words: str, columns: int = 80, lines: int = 24, typed: str | None = None) -> str:
        result = self.run(*words, columns=columns, lines=lines, typed=typed)
        assert result.exit_code == 0, result.output
        return result.output

    def json_output(self, *words: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self.say(*words, "--json"))

    def inside(self, act: Callable[[AppSession], Awaitable[T]]) -> T:
        """Open the application on the terminal's data directory, and let `act` use it."""

        async def acted() -> T:
            settings = read_settings({"data_dir": self.data_dir}, {}).settings
            async with open_app(settings) as here:
                return await act(here)

        return asyncio.run(acted())

    def call(self, tool: str, *, ago: timedelta | None = None, **arguments: object) -> Body:
        """Call a tool as an agent; with `ago`, the clock is set back by this time for the call."""

        async def act(here: AppSession) -> Body:
            if ago is not None:
                (((now,),),) = await here.call.read("select app_now()")
                here.app.services.database.frozen_now = now - ago
            answer = await here.call_tool(tool, arguments, here.app.caller(Channel.MCP))
            assert not answer.is_error, answer.body
            return answer.body

        return self.inside(act)

    def plan(self, name: str, steps: int = 3, *, ago: timedelta | None = None) -> str:
        step_fields = [
            {"stepType": "search", "title": f"Part {n}", "instructions": f"Look up {n}."}
            for n in range(1, steps + 1)
        ]
        question = "Which river is longest?"
        named = {"name": name, "researchQuestion": question}
        made = self.call("create_research_plan", ago=ago, **named, steps=step_fields)
        return str(made["planId"])

    def take(self, plan_id: str, *, ago: timedelta | None = None) -> Body:
        taken = self.call("get_next_step", ago=ago, planId=plan_id)
        assert taken["status"] == "step_ready", taken
        return taken

    def under_review(self, name: str) -> str:
        plan_id = self.plan(name)
        step = self.take(plan_id)
        self.call(
            "request_user_review",
            stepId=step["stepId"],
            summary="Is this enough?",
            questions=["Which one?"],
            resultSummary="Nile",
        )
        return plan_id
