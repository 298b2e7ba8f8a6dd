"""Shows and watches plans and runs, for `waybook plan` and `waybook run`."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import click
from rich.console import RenderableType
from rich.text import Text

from waybook.cli.access import Body, Server, open_page
from waybook.cli.diagram_files import pop_requested_exports, write_exports
from waybook.cli.terminal import rows
from waybook.cli.terminal.console import SafeConsole, Viewport, usage_lines
from waybook.cli.terminal.live import watch_board
from waybook.cli.terminal.plan_board import plan_display, step_display
from waybook.cli.terminal.rows import flat, print_fields
from waybook.cli.terminal.run_board import run_display, run_lines

_MAX_INPUT_LENGTH: Final = 300


class _Board(NamedTuple):
    display: Callable[[Mapping[str, Any], Viewport], RenderableType]
    show: Callable[[Mapping[str, Any], int], RenderableType]
    count: Callable[[Mapping[str, Any]], int]


def _run_row(run: Mapping[str, Any], place: int) -> RenderableType:
    return Text("\n").join(cell for cell in run_lines(run)[place].cells if cell)


BOARDS: Final = {
    "plan": _Board(plan_display, step_display, lambda plan: len(plan["steps"])),
    "run": _Board(run_display, _run_row, lambda run: len(run_lines(run))),
}


def view(server: Server, noun: str, text: str | None, options: dict[str, Any]) -> None:
    exports = pop_requested_exports(options)
    if exports:
        write_exports(server.drawing(noun, text), exports)
        return
    board = server.read(noun, q=text)
    if options["web"]:
        open_page(board["url"])
    elif options["fields"] is not None:
        print_fields(board, options["fields"])
    elif rows.is_terminal():
        _print_board(noun, board, server.hint)
    else:
        _print_plain(board)


def _print_board(noun: str, board: Body, hint: str | None) -> None:
    console = SafeConsole()
    console.print(BOARDS[noun].display(board, Viewport(width=console.width)))
    subject = board.get("question") or board.get("input")
    line = subject if isinstance(subject, str) else json.dumps(subject, ensure_ascii=False)
    line = " ".join(line.split())
    cut = f"{line[:_MAX_INPUT_LENGTH]} …" if len(line) > _MAX_INPUT_LENGTH else line
    console.print(Text.assemble(("question" if noun == "plan" else "input", "dim"), f"  {cut}"))
    review = board.get("openReview")
    if place := review["reviewUrl"] if review else board.get("awaitingFeedback") and board["url"]:
        console.print(Text.assemble(("page", "dim"), f"      {place}"))
        if hint:
            console.print(Text(f"          {hint}", style="dim"))
    for usage in usage_lines(board):
        console.print(usage)


def _print_plain(board: Body) -> None:
    """Print single values as fields, then the steps or stages, with tabs."""
    for name, value in board.items():
        if not isinstance(value, dict | list):
            click.echo(f"{name}\t{flat(value)}")
    click.echo("")
    for step in board["steps"] if "steps" in board else board["stages"]:
        cells = (value for value in step.values() if not isinstance(value, dict | list))
        click.echo("\t".join(map(flat, cells)))


def watch(server: Server, noun: str, text: str | None, *, once: bool) -> None:
    board, console = server.read(noun, q=text), SafeConsole()
    draw = BOARDS[noun]
    try:
        if not once:
            own = board[f"{noun}Id"]
            board = {**watch_board(lambda: server.read(noun, q=own), *draw)}
    except KeyboardInterrupt:  # Ctrl-C ends the command without an error.
        return
    # The last line of the terminal is for the prompt.
    console.print(draw.display(board, Viewport(width=console.width, height=console.height - 1)))
