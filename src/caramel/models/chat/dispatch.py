"""Work on the requests to a chat endpoint in threads, as many at a time as its slots call for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import requests

from caramel.models.chat.endpoint import Endpoint

Output = TypeVar("Output")
Job = Callable[[requests.Session, threading.Event], Output]


def run_jobs(
    endpoint: Endpoint,
    next_jobs: Callable[[int], Iterable[Job[Output]]],
    on_output: Callable[[Output], None],
) -> None:
    """Run jobs concurrently until no further one is ready and none is under way.

    Args:
        endpoint: the endpoint that the jobs send requests to.
        next_jobs: returns at most the given number of jobs, in the caller's thread; none if none is ready. A job gets
            the session for its requests, and an event that tells it to stop.
        on_output: called with the output of each job, one at a time, in the caller's thread. Afterwards more
            jobs may be ready.

    Raises:
        Exception: the first error of a job. It ends the run, but outputs of jobs under way are still passed on.
    """
    stop, done = threading.Event(), queue.SimpleQueue[Future[Output]]()
    under_way, error = 0, None
    threads = endpoint.slots.highest_capacity
    with endpoint.open_session() as session, ThreadPoolExecutor(threads) as pool:
        try:
            while True:
                free = 0 if error else endpoint.slots.capacity - under_way
                for job in next_jobs(free) if free > 0 else ():
                    pool.submit(job, session, stop).add_done_callback(done.put)
                    under_way += 1
                if not under_way:
                    break
                finished = done.get()
                under_way -= 1
                if problem := finished.exception():
                    error = error or problem
                    stop.set()
                else:
                    on_output(finished.result())
        finally:
            stop.set()
    if error:
        raise error
