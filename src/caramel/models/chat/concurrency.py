"""Find how many requests a chat endpoint takes at a time, and hold all threads to that number.

The level is the number of requests that may be in flight. It follows from the server's answers alone:

- It starts at ``START`` and doubles while the rate of replies grows by at least ``GROWTH``. After that it is ``ROOM``
  times the best level, so that a server that queues requests always has the next one.
- A refusal (429, 503) sets a ceiling: the number of requests in flight without the refused one. Each further refusal of
  a request that was sent before lowers it by one, so that a burst of refusals ends at what the server takes.
- After ``QUIET`` seconds it tries more again: one request above a ceiling, else the double. That time doubles
  with each trial in vain, up to ``LONGEST_QUIET``.
- Other errors change nothing.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from caramel.interfaces.connections import AUTO, MaxConnections

START, HIGHEST = 8, 512  # first level, highest level
GROWTH = 1.2  # least ratio of two rates of replies at which a doubled level is worth it
ROOM = 1.5  # of the level in use to the best level
WINDOW = 16  # least number of replies in which a rate is measured; else as many as the level
EXACT = (
    4  # times as many replies once the first level was found: a reply more or less in time matters less then
)
QUIET, LONGEST_QUIET = 30.0, 960.0  # seconds
Result = Literal["answered", "refused", "failed"]
Trial = Literal["double", "one more"]  # a higher level that is tried


class Slot(NamedTuple):
    """A request in flight.

    Attributes:
        number: its number, from 1 in the order of starts.
        in_flight: number of requests in flight when it began, itself included.
    """

    number: int
    in_flight: int


class AdaptiveLevel:
    """How many requests may be in flight; the module says how it is found. It has no lock of its own.

    Args:
        max_connections: ``AUTO``, or the level for ever.
        clock: returns the time in seconds.

    Attributes:
        level: number of requests that may be in flight now.
        in_flight: number of requests in flight; more than the level for a while after the level fell.
    """

    def __init__(
        self, max_connections: MaxConnections = AUTO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lowest, self.highest = (
            (1, HIGHEST) if max_connections == AUTO else (max_connections, max_connections)
        )
        self.level, self.in_flight = START if max_connections == AUTO else max_connections, 0
        self._clock = clock
        self._ceiling = self.highest
        self._trial: Trial | None = "double"
        self._best_rate, self._best_level = 0.0, self.level
        self._quiet, self._quiet_until = QUIET, 0.0
        self._started, self._started_before_refusal, self._started_before_window = (
            0,
            0,
            0,
        )  # numbers of requests
        self._window_began: float | None = None  # time of the first reply in the window
        self._replies, self._was_reached = 0, False  # in the window

    def begin_request(self) -> Slot:
        """Count a request that is sent now."""
        self._started += 1
        self.in_flight += 1
        self._was_reached |= self.in_flight >= self.level
        return Slot(self._started, self.in_flight)

    def end_request(self, slot: Slot, result: Result) -> None:
        """Count the end of a request, and change the level if it says so."""
        if result == "refused":
            self._lower_ceiling(slot)
        elif result == "answered":
            self._count_reply(slot)
        self.in_flight -= 1

    def _lower_ceiling(self, slot: Slot) -> None:
        """Take the level down to what the server takes, and keep it there for a quiet time.

        When the server refused the request, it had all others that it takes. All of them were in flight here, too, at
        some time between the request's beginning and its end, so the ceiling is never below the server's limit.
        """
        if slot.number > self._started_before_refusal:
            self._ceiling = min(self._ceiling, max(slot.in_flight, self.in_flight) - 1)
        else:
            self._ceiling -= 1
        self._ceiling = max(self._ceiling, self._lowest)
        self._started_before_refusal = self._started
        self._keep_level(self.level)

    def _count_reply(self, slot: Slot) -> None:
        """Measure the rate of replies to requests of this level; judge it at the end of a window."""
        if slot.number <= self._started_before_window:
            return
        now = self._clock()
        if self._window_began is None:
            self._window_began = now
            return
        self._replies += 1
        if self._replies < max(WINDOW, self.level) * (EXACT if self._quiet_until else 1):
            return
        rate, was_reached = self._replies / max(now - self._window_began, 1e-9), self._was_reached
        self._reset_window()
        if was_reached:  # else there were too few requests, and the rate says nothing about the level
            self._judge_rate(rate, now)

    def _judge_rate(self, rate: float, now: float) -> None:
        """Raise the level while that gives a higher rate, or when the quiet time is over."""
        if self._trial == "one more":  # was not refused: the server takes more than it did
            self._ceiling = self.highest
            self._try_double(rate)
        elif self._trial == "double" and rate >= GROWTH * self._best_rate:
            self._best_level, self._quiet = self.level, QUIET
            self._try_double(rate)
        elif self._trial == "double":
            self._keep_level(math.ceil(ROOM * self._best_level))
        elif now < self._quiet_until:
            self._best_rate = max(self._best_rate, rate)
        else:
            self._quiet = min(2 * self._quiet, LONGEST_QUIET)
            if self.level < self._ceiling:
                self._try_double(max(self._best_rate, rate))
            else:
                self._trial = "one more"
                self._ceiling += 1
                self._set_level(self._ceiling)

    def _try_double(self, rate: float) -> None:
        """Try twice the level, which must give a higher rate than this one."""
        self._trial, self._best_rate = "double", rate
        self._set_level(2 * self.level)

    def _keep_level(self, level: int) -> None:
        """Stay at a level for a quiet time."""
        self._trial, self._best_rate, self._quiet_until = None, 0.0, self._clock() + self._quiet
        self._set_level(level)

    def _set_level(self, level: int) -> None:
        self.level = max(self._lowest, min(level, self._ceiling, self.highest))
        self._reset_window()

    def _reset_window(self) -> None:
        """Measure afresh; only requests that begin from now on count, since others were sent at another level."""
        self._started_before_window = self._started
        self._window_began, self._replies, self._was_reached = None, 0, False


class ConnectionSlots:
    """The requests in flight at one endpoint, shared by its threads.

    Args:
        max_connections: number of slots, or ``AUTO``.
    """

    def __init__(self, max_connections: MaxConnections = AUTO) -> None:
        self._level = AdaptiveLevel(max_connections)
        self._spare = 2 if max_connections == AUTO else 1
        self._changed = threading.Condition()

    @property
    def level(self) -> int:
        """Return the number of requests that may be in flight now."""
        return self._level.level

    @property
    def highest(self) -> int:
        """Return the largest number of requests that may ever be in flight."""
        return self._level.highest

    @property
    def highest_capacity(self) -> int:
        """Return the largest capacity that there may ever be."""
        return self._spare * self.highest

    @property
    def capacity(self) -> int:
        """Return the number of requests to work on now: those that pause or wait for a slot are included.

        With ``AUTO`` it is twice the level, so that a slot never waits for a request. A given number counts all.
        """
        return self._spare * self.level

    def take_slot(self) -> Slot:
        """Wait until one more request may be in flight, and count it."""
        with self._changed:
            self._changed.wait_for(lambda: self._level.in_flight < self._level.level)
            return self._level.begin_request()

    def release_slot(self, slot: Slot, result: Result) -> None:
        """Count the end of a request, and wake as many waiting threads as there are free slots."""
        with self._changed:
            self._level.end_request(slot, result)
            self._changed.notify(max(0, self._level.level - self._level.in_flight))
