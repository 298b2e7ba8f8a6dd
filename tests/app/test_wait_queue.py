"""Queue of waiting calls: which call is woken next, and after what time."""

from collections.abc import Callable

import pytest

from waybook.app.request.wait_queue import (
    MIN_PAUSE_SECONDS,
    OVERDUE_SECONDS,
    TIMER_MARGIN_SECONDS,
    Nothing,
    Subject,
    Waiter,
    WaitQueue,
)

SUBJECT = Subject("plan", "1")


class FakeTimer:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.is_canceled = False

    def cancel(self) -> None:
        self.is_canceled = True


class FakeLoop:
    """Event loop whose clock the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[FakeTimer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None], /) -> FakeTimer:
        self.timers.append(FakeTimer(when, callback))
        return self.timers[-1]

    def due(self) -> list[float]:
        """Return the times after which the timers will call their functions."""
        return [round(timer.when - self.now, 3) for timer in self.timers if not timer.is_canceled]

    def advance(self, seconds: float) -> None:
        self.now += seconds
        fired = [timer for timer in self.timers if timer.when <= self.now]
        self.timers = [timer for timer in self.timers if timer.when > self.now]
        for timer in fired:
            if not timer.is_canceled:
                timer.callback()


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def queue(loop: FakeLoop) -> WaitQueue:
    return WaitQueue(loop)


@pytest.fixture
def waiters(queue: WaitQueue) -> list[Waiter]:
    made = [Waiter() for _ in range(3)]
    for waiter in made:
        queue.join(waiter)
    return made


def woken(waiters: list[Waiter]) -> list[bool]:
    return [waiter.woken.is_set() for waiter in waiters]


def nothing(free_in: float | None = None) -> Nothing:
    return Nothing(SUBJECT, 5, free_in)


def try_in_vain(queue: WaitQueue, waiter: Waiter, free_in: float | None = None) -> None:
    """Let a woken call find no work, so that the call waits again."""
    waiter.woken.clear()
    queue.start_trying()
    queue.note_nothing(nothing(free_in), {})
    queue.stop_trying()


def test_waiting_call_that_gets_no_work_retries_after_a_pause(
    loop: FakeLoop, queue: WaitQueue, waiters: list[Waiter]
) -> None:
    queue.wake()
    try_in_vain(queue, waiters[0])
    for _ in range(10):
        queue.wake()
    assert (woken(waiters), loop.due()) == ([False, False, False], [MIN_PAUSE_SECONDS])
    loop.advance(MIN_PAUSE_SECONDS)
    assert woken(waiters) == [True, False, False]


def test_waiting_call_searches_again_after_a_change_during_the_search(
    loop: FakeLoop, queue: WaitQueue, waiters: list[Waiter]
) -> None:
    queue.wake()
    waiters[0].woken.clear()
    queue.start_trying()
    queue.wake()
    queue.note_nothing(nothing(), {})
    queue.stop_trying()
    assert woken(waiters) == [False, False, False]
    loop.advance(MIN_PAUSE_SECONDS)
    assert woken(waiters) == [True, False, False]


def test_timer_wakes_first_waiting_call_when_a_job_becomes_free(
    loop: FakeLoop, queue: WaitQueue, waiters: list[Waiter]
) -> None:
    queue.note_nothing(nothing(30), {})
    queue.note_nothing(nothing(10), {})
    queue.note_nothing(nothing(20), {})
    assert loop.due() == [10 + TIMER_MARGIN_SECONDS]
    queue.leave(waiters[0])
    loop.advance(11)
    assert woken(waiters[1:]) == [True, False]


def test_waiting_call_searches_for_overdue_work_again_after_1_second(
    loop: FakeLoop, queue: WaitQueue, waiters: list[Waiter]
) -> None:
    queue.wake()
    try_in_vain(queue, waiters[0], free_in=-7)
    assert loop.due() == [OVERDUE_SECONDS]
