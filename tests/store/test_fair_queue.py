"""Fair queue: it first serves the waiting call whose org holds the fewest connections."""

from collections import Counter, defaultdict, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.errors import Busy
from waybook.store.driver.pool import FairQueue

SIZES = st.integers(1, 12)
ORGS = st.sampled_from("abcd")
#: Pairs of event and org: a caller of the org arrives, returns a slot, or stops waiting.
EVENTS = st.lists(st.tuples(st.sampled_from(["come", "give", "leave"]), ORGS), max_size=200)


class Room:
    """Test pool with a fixed number of slots, which records how many slots each org holds."""

    def __init__(self, size: int) -> None:
        self.turns: FairQueue[int] = FairQueue(size)
        self.free = size
        self.share = size - size // 4
        self.came = 0
        self.orgs: set[str] = set()
        self.holding: Counter[str] = Counter()
        self.waiting: defaultdict[str, deque[int]] = defaultdict(deque)
        #: Orgs of the callers, in the order in which they were served.
        self.served: list[str] = []

    def come(self, org: str) -> None:
        self.came += 1
        self.orgs.add(org)
        self.turns.register(org)
        if self.free and self.turns.can_acquire(org):
            self.free -= 1
            self.turns.acquire(org)
            self.holding[org] += 1
            self.served.append(org)
        else:
            self.turns.enqueue(org, self.came)
            self.waiting[org].append(self.came)

    def give(self, org: str) -> None:
        if self.holding[org]:
            self.holding[org] -= 1
            self.turns.release(org)
            self.pass_on()

    def leave(self, org: str) -> None:
        if self.waiting[org]:
            self.turns.dequeue(org, self.waiting[org].popleft())

    def pass_on(self) -> None:
        self.free += 1
        most = self.share if len(self.orgs) > 1 else self.free + self.holding.total()
        entitled = [o for o in self.orgs if self.waiting[o] and self.holding[o] < most]
        served = self.turns.pop_next()
        if served is None:
            assert not entitled
            return
        org, number = served
        assert isinstance(org, str)
        assert self.holding[org] == min(self.holding[o] for o in entitled), "who has least"
        assert number == self.waiting[org].popleft(), "in the order they came"
        self.free -= 1
        self.holding[org] += 1
        self.served.append(org)


@given(SIZES, EVENTS)
def test_no_call_waits_while_a_usable_slot_is_free(
    size: int, events: list[tuple[str, str]]
) -> None:
    room = Room(size)
    for what, org in events:
        getattr(room, what)(org)
        assert room.free + room.holding.total() == size
        if room.free:
            content = [o for o in room.orgs if room.waiting[o] and room.turns.can_acquire(o)]
            assert content == [], "nobody waits for what is free"


def test_released_slot_goes_to_waiting_org_with_fewer_slots() -> None:
    room = Room(8)
    for org in "aaaaabbbab":
        room.come(org)
    room.give("a")
    assert room.served[-1] == "b"
    room.give("b")
    assert room.served[-1] == "a"


@given(SIZES, st.lists(ORGS, min_size=1, max_size=60), st.randoms())
def test_fair_queue_eventually_serves_every_waiting_call(
    size: int, comers: list[str], chance: object
) -> None:
    room = Room(size)
    for org in comers:
        room.come(org)
    while room.holding.total():
        held = sorted(room.holding.elements())
        room.give(chance.choice(held))  # type: ignore[attr-defined]  # a random.Random
    assert Counter(room.served) == Counter(comers)
    assert room.free == size


@given(st.integers(4, 40), st.integers(1, 50))
def test_org_uses_at_most_three_quarters_of_slots_if_several_are_active(
    size: int, calls: int
) -> None:
    room = Room(size)
    room.come("b")
    room.give("b")
    for _ in range(calls):
        room.come("a")
    assert room.holding["a"] == min(calls, size - size // 4)
    room.come("b")
    assert room.holding["b"] == 1, "nobody has to come back first"


def test_org_can_use_all_slots_if_no_other_org_is_active() -> None:
    turns: FairQueue[int] = FairQueue(4)
    for org in (None, "a", None, "a", "a"):
        turns.register(org)
        assert turns.can_acquire(org)
        turns.acquire(org)
    turns.release(None)
    assert turns.can_acquire("a")


def test_org_with_too_many_waiting_calls_gets_busy() -> None:
    turns: FairQueue[int] = FairQueue(1, most_waiting=3)
    for number in range(3):
        turns.enqueue("a", number)
    with pytest.raises(Busy) as refused:
        turns.enqueue("a", 3)
    assert refused.value.details == {"limit": 3, "retryAfter": 1}
    turns.enqueue("b", 4)
    turns.dequeue("a", 0)
    turns.enqueue("a", 5)
