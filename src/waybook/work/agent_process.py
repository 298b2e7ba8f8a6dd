"""Run one agent process on a task."""

import asyncio
import os
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Callable
from pathlib import Path

from waybook.json_values import parse_content
from waybook.redaction import redactor
from waybook.work.adapters import Adapter
from waybook.work.tasks import Limits, Outcome, OutcomeKind, Task, Usage


async def run_agent(
    adapter: Adapter, task: Task, limits: Limits, on_line: Callable[[str], None]
) -> Outcome:
    """Run an agent until it ends or reaches a limit. `on_line` gets each masked line of output."""
    mask = redactor(task.secrets)
    with tempfile.TemporaryDirectory(prefix="waybook-agent-") as private:
        prompt, result = Path(private, "prompt.md"), Path(private, "result")
        _write(prompt, task.prompt)
        names = {"{prompt_file}": str(prompt), "{folder}": str(task.folder)}
        process = await asyncio.create_subprocess_exec(
            *(names.get(word, word) for word in adapter.command),
            cwd=task.folder,
            env={**os.environ, **task.environment, "WAYBOOK_RESULT": str(result)},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limits.seconds):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            output, _ = await process.communicate()
        text = mask(output.decode(errors="replace"))
        for line in text.splitlines():
            on_line(line)
        answer = _read(result, text)
    kind = OutcomeKind.FAILED if process.returncode else OutcomeKind.DONE
    message = f"the agent exited with status {process.returncode}" if process.returncode else ""
    return Outcome(kind, answer, parse_content(answer), Usage(), None, None, message, text.encode())


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def _read(path: Path, default: str) -> str:
    return path.read_text("utf-8") if path.exists() else default
