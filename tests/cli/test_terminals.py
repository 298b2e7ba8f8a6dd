"""`waybook watch` and `waybook review` in a pseudo-terminal whose size changes."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from cli.terminal import Terminal
from patience import PATIENCE_SECONDS

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HOME = "\x1b[H"


@dataclass
class Screen:
    """Pseudo-terminal with a program, and everything that the program has printed."""

    pty: int
    process: subprocess.Popen[bytes]
    sent: bytes = b""
    sizes: list[tuple[int, int]] = field(default_factory=list)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.pty, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.sizes.append((columns, lines))

    def until(self, enough: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not enough(self.text):
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self.pty], [], [], left)
            assert ready, self.text
            try:
                more = os.read(self.pty, 65536)
            except OSError:  # The process has closed its side of the terminal.
                more = b""
            if not more:
                assert enough(self.text), self.text
                break
            self.sent += more
        return self.text

    def to_the_end(self) -> int:
        with contextlib.suppress(AssertionError):
            self.until(lambda _: False)
        return self.process.wait(PATIENCE_SECONDS)

    @property
    def text(self) -> str:
        return self.sent.decode("utf-8", "replace")

    @property
    def frames(self) -> list[list[str]]:
        """Return the full-screen views that the program drew, as lines without colors."""
        _, _, live = self.text.partition("\x1b[?1049h")
        live = live.partition("\x1b[?1049l")[0]
        return [ESCAPE.sub("", frame).splitlines() for frame in live.split(HOME)[1:]]


@contextmanager
def open_screen(
    terminal: Terminal, *words: str, columns: int = 80, lines: int = 24
) -> Iterator[Screen]:
    ours, theirs = pty.openpty()
    away = {"COLUMNS", "LINES", "NO_COLOR"}
    environment = {name: value for name, value in os.environ.items() if name not in away} | {
        "WAYBOOK_DATA_DIR": str(terminal.data_dir),
        "WAYBOOK_CONFIG": str(terminal.data_dir / "no-config.toml"),
        "TERM": "xterm-256color",
        "PYTHONWARNINGS": "default",
    }
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "waybook", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    screen = Screen(ours, process)
    try:
        yield screen
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE_SECONDS)
        os.close(ours)


def test_watch_command_redraws_when_plan_or_terminal_size_changes(terminal: Terminal) -> None:
    plan_id = terminal.plan("Watched live", 40)
    with open_screen(terminal, "watch", plan_id, columns=80, lines=12) as screen:
        screen.until(lambda text: "0 of 40 done" in text and "live" in text)
        assert all(len(frame) <= 12 for frame in screen.frames)
        step = terminal.take(plan_id)
        terminal.call("submit_step_result", stepId=step["stepId"], resultSummary="found")
        screen.until(lambda text: "1 of 40 done" in text)

        before = len(screen.sent)
        screen.resize(50, 7)
        screen.process.send_signal(signal.SIGWINCH)
        screen.until(lambda _: len(screen.sent) > before and len(screen.frames[-1]) in range(2, 8))
        step = terminal.take(plan_id)
        terminal.call("submit_step_result", stepId=step["stepId"], resultSummary="found")
        screen.until(lambda text: "2 of 40 done" in text)
        last = screen.frames[-1]
        assert len(last) <= 7
        assert all(len(line) <= 50 for line in last)
        assert "\x1b[2J" not in screen.text.partition("0 of 40 done")[2], "it would flicker"

        screen.process.send_signal(signal.SIGINT)
        assert screen.to_the_end() == 0
        assert "\x1b[?1049l" in screen.text, "the screen is given back"
        assert "Traceback" not in screen.text


def test_watch_command_chooses_and_shows_steps_with_keys(terminal: Terminal) -> None:
    plan_id = terminal.plan("Watched with keys", 5)
    with open_screen(terminal, "plan", "watch", plan_id) as screen:
        screen.until(lambda text: "0 of 5 done" in text)
        os.write(screen.pty, b"jj\x1b[B")
        os.write(screen.pty, b"k")
        screen.until(lambda text: "\x1b[7m" in text)
        os.write(screen.pty, b"\r")
        screen.until(lambda text: "attempt" in text)
        os.write(screen.pty, b"q")
        assert screen.to_the_end() == 0
    assert "\x1b[?1049l" in screen.text, "the screen is given back"


def test_run_watch_ends_with_a_key(terminal: Terminal) -> None:
    run = terminal.call(
        "start_run", dagSlug="deep-research", name="Watched run", input="i", models=["m"]
    )
    with open_screen(terminal, "run", "watch", run["runId"]) as screen:
        screen.until(lambda text: "0 of 3 stages" in text)
        os.write(screen.pty, b"rjq")
        assert screen.to_the_end() == 0


def test_terminal_with_c_locale_gets_ascii_only(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.plan("Río Negro → sea")
    for name in ("PYTHONUTF8", "PYTHONIOENCODING", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C")
    monkeypatch.setenv("LC_ALL", "C")
    with open_screen(terminal, "plan", "list", columns=120) as screen:
        assert screen.to_the_end() == 0
    assert screen.sent.isascii()
    assert "R?o Negro > sea" in screen.text


def test_review_command_reports_decision_just_made_by_another_process(terminal: Terminal) -> None:
    plan_id = terminal.under_review("Decided at a terminal")
    with open_screen(terminal, "review", plan_id) as screen:
        screen.until(lambda text: "[l]ater" in text)
        assert "Is this enough?" in screen.text
        terminal.say("review", plan_id, "--skip")
        os.write(screen.pty, b"a\n")
        assert screen.to_the_end() == 0
        assert "already decided: " in screen.text
        assert "chose skip" in screen.text
        assert "Nothing is waiting for you." in screen.text
