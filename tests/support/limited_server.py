"""Behaviours of a chat server that works on a limited number of requests at a time; further ones wait or are refused."""

from __future__ import annotations

import threading
import time

from chat_server import Behaviour, Request, Response, refuses


class Limit:
    """What a server answers by ``behave``, but ``slots`` requests at a time, after at least ``seconds`` each."""

    def __init__(self, behave: Behaviour, slots: int, seconds: float, *, queues: bool) -> None:
        self._behave, self._seconds, self._queues = behave, seconds, queues
        self._free = threading.Semaphore(slots)
        self._lock = threading.Lock()
        self.worked = 0.0  # seconds of all answered requests
        self.refused: list[int] = []  # numbers of refused requests
        self.begun, self.ended = float("inf"), 0.0

    def __call__(self, request: Request, number: int) -> Response | str:
        if not self._free.acquire(blocking=self._queues):
            self.refused.append(number)
            return refuses(429, "too many requests")
        begun = time.monotonic()
        time.sleep(self._seconds)
        answer = self._behave(request, number)
        with self._lock:
            ended = time.monotonic()
            self.worked += ended - begun
            self.begun, self.ended = min(self.begun, begun), max(self.ended, ended)
        self._free.release()
        return answer
