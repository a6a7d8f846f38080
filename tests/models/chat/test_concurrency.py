"""The level of connections, against a simulated server and a simulated clock: nothing here sleeps."""

from __future__ import annotations

import heapq
import random
import threading
from collections import deque
from dataclasses import dataclass, field
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.models.chat.concurrency import (
    HIGHEST,
    LONGEST_QUIET,
    QUIET,
    START,
    WINDOW,
    AdaptiveLevel,
    ConnectionSlots,
    Slot,
)


@dataclass
class Simulation:
    """A client that always has requests, and a server that works on ``limit`` at a time."""

    limit: int
    refuses: bool
    seed: int = 0
    spread: float = 0.0  # of the seconds of a request around 1
    transit: float = 0.01  # largest time of a message on its way, seconds
    now: float = 0.0
    answered: int = 0
    worked: float = 0.0  # seconds that requests took, all together
    refusals: list[float] = field(default_factory=list)  # times
    most: int = 0  # largest number in flight
    lowest: int = HIGHEST  # lowest level

    def __post_init__(self) -> None:
        self.level = AdaptiveLevel(clock=lambda: self.now)
        self._random, self._order = random.Random(self.seed), count()
        self._events: list[tuple[float, int, str, Slot]] = []
        self._busy, self._queue = 0, deque[Slot]()

    def run(self, number: int) -> float:
        """Go on until there are this many more replies; return the share of its time that the server works."""
        begun, worked, wanted = self.now, self.worked, self.answered + number
        while self.answered < wanted:
            while self.level.in_flight < self.level.level:
                self._post("arrives", self.level.begin_request())
            self.most = max(self.most, self.level.in_flight)
            self.now, _, event, slot = heapq.heappop(self._events)
            self._handle(event, slot)
            self.lowest = min(self.lowest, self.level.level)
        return (self.worked - worked) / (self.now - begun) / self.limit

    def _post(self, event: str, slot: Slot) -> None:
        self._post_after(self.transit * self._random.random(), event, slot)

    def _post_after(self, seconds: float, event: str, slot: Slot) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), event, slot))

    def _serve(self, slot: Slot) -> None:
        self._busy += 1
        seconds = 1 + self.spread * self._random.uniform(-1, 1)
        self.worked += seconds
        self._post_after(seconds, "served", slot)

    def _handle(self, event: str, slot: Slot) -> None:
        if event == "arrives" and self._busy < self.limit:
            self._serve(slot)
        elif event == "arrives" and self.refuses:
            self._post("refused", slot)
        elif event == "arrives":
            self._queue.append(slot)
        elif event == "served":
            self._busy -= 1
            self._post("answered", slot)
            if self._queue and self._busy < self.limit:
                self._serve(self._queue.popleft())
        elif event == "answered":
            self.answered += 1
            self.level.end_request(slot, "answered")
        else:
            self.refusals.append(self.now)
            self.level.end_request(slot, "refused")


LIMITS = st.integers(1, 60)
SEEDS = st.integers(0, 10_000)


@settings(max_examples=15, deadline=None)
@given(limit=LIMITS, seed=SEEDS, spread=st.floats(0, 0.5))
def test_a_server_that_queues_is_kept_busy_with_a_bounded_queue(limit: int, seed: int, spread: float) -> None:
    server = Simulation(limit, False, seed, spread)
    server.run(20 * max(limit, WINDOW))
    assert server.run(20 * max(limit, WINDOW)) >= 0.95
    assert server.most <= max(6 * limit, 6 * START)
    assert server.refusals == []


@settings(max_examples=15, deadline=None)
@given(limit=LIMITS, seed=SEEDS, spread=st.floats(0, 0.5), transit=st.floats(0, 0.05))
def test_at_a_server_that_refuses_the_level_becomes_its_limit_and_never_less(
    limit: int, seed: int, spread: float, transit: float
) -> None:
    server = Simulation(limit, True, seed, spread, transit)
    server.run(40 * max(limit, WINDOW))
    assert server.lowest >= min(limit, START)
    assert server.level.level in (limit, limit + 1)  # one more while it is tried
    assert server.most <= max(2 * limit, START)


@pytest.mark.parametrize("limit", [1, 7, 16, 40])
def test_trials_above_a_ceiling_cost_one_refusal_and_get_rarer(limit: int) -> None:
    server = Simulation(limit, True)
    server.run(400 * limit)
    times = [time for time in server.refusals if time > QUIET]
    trials = [time for time, last in zip(times, [0.0, *times], strict=False) if time - last > 5]
    assert 2 <= len(trials) <= 4
    assert len(times) <= 2 * len(trials)
    gaps = [second - first for first, second in pairwise(trials)]
    assert all(second > 1.6 * first for first, second in pairwise(gaps))
    assert server.run(100 * limit) > 0.95


@pytest.mark.parametrize(("before", "after"), [(16, 3), (3, 16), (40, 80)])
def test_a_limit_that_changes_is_found_again(before: int, after: int) -> None:
    server = Simulation(before, True)
    server.run(100 * before)
    server.limit = after
    server.run(400 * after)
    assert server.level.level in (after, after + 1)


def test_a_server_that_queues_gets_more_when_it_takes_more() -> None:
    server = Simulation(8, False)
    server.run(500)
    assert server.level.level <= 24
    server.limit = 64
    server.run(64 * 200)
    assert server.level.level >= 64


def test_too_few_requests_do_not_count_as_a_server_at_its_limit() -> None:
    now = 0.0
    level = AdaptiveLevel(clock=lambda: now)
    for _ in range(20 * WINDOW):  # one at a time
        slot = level.begin_request()
        now += 1
        level.end_request(slot, "answered")
    assert level.level == START


def test_errors_change_nothing() -> None:
    level = AdaptiveLevel(clock=lambda: 0.0)
    for _ in range(20 * WINDOW):
        slots = [level.begin_request() for _ in range(START)]
        for slot in slots:
            level.end_request(slot, "failed")
    assert (level.level, level.in_flight) == (START, 0)


def test_refusals_of_all_requests_end_at_one_connection_and_the_quiet_time_is_bounded() -> None:
    now = 0.0
    level = AdaptiveLevel(clock=lambda: now)
    tried: list[float] = []
    for _ in range(20_000):
        slots = [level.begin_request() for _ in range(level.level)]
        now += 1
        for slot in reversed(slots):
            level.end_request(slot, "answered" if len(slots) == 1 else "refused")
        tried += [now] if len(slots) > 1 else []
        assert level.level in (1, 2)
    gaps = [second - first for first, second in pairwise(tried)]
    assert LONGEST_QUIET <= max(gaps) <= LONGEST_QUIET + 2 * WINDOW


@settings(max_examples=50, deadline=None)
@given(
    number=st.integers(1, 1024),
    results=st.lists(st.sampled_from(["answered", "refused", "failed"]), max_size=200),
)
def test_a_given_number_never_changes(number: int, results: list[str]) -> None:
    now = 0.0
    level = AdaptiveLevel(number, clock=lambda: now)
    for result in results:
        now += QUIET
        level.end_request(level.begin_request(), result)  # type: ignore[arg-type]
        assert level.level == level.highest == number


def test_slots_are_as_many_as_the_level_and_a_freed_one_is_taken_at_once() -> None:
    slots, taken = ConnectionSlots(2), list[Slot]()
    first, second = slots.take_slot(), slots.take_slot()
    waiting = threading.Thread(target=lambda: taken.append(slots.take_slot()))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    slots.release_slot(first, "answered")
    waiting.join(10)
    assert [slot.number for slot in (first, second, *taken)] == [1, 2, 3]


def test_a_number_bounds_what_is_worked_on_and_auto_keeps_requests_ready() -> None:
    assert (ConnectionSlots(5).capacity, ConnectionSlots(5).highest_capacity) == (5, 5)
    assert (ConnectionSlots().capacity, ConnectionSlots().highest_capacity) == (2 * START, 2 * HIGHEST)
