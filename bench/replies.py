"""Measure the request rate to a language model server, the memory, and the cost of a kill.

    python bench/replies.py --requests 100000 --slots 16
    python bench/replies.py --requests 10000 --kill

A server in its own process handles ``--slots`` requests at a time and takes 50 ms for each, so its limit is
slots / 0.05 per second. The client keeps ``--max-connections`` requests open, by default 1.5 times the slots, so that
a free slot always finds a waiting request. With ``--kill`` the client is killed (SIGKILL) half-way and
restarted; the server counts the repeated requests.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click

from caramel.models.chat.concurrency import ConnectionSlots
from caramel.models.chat.endpoint import Endpoint
from caramel.models.llm.chat import ChatLanguageModel
from caramel.sources.captions.llm.budget import Budget, Usage
from caramel.sources.captions.llm.conversation import Outcome, PromptInput, Script, ask_until_valid
from caramel.sources.captions.llm.models import NamedModel
from caramel.sources.captions.llm.response_cache import open_replies
from caramel.sources.captions.llm.scheduler import RequestSettings, Scheduler

LATENCY = 0.05  # seconds
MESSAGE = {"choices": [{"message": {"content": '{"follows": "no"}'}, "finish_reason": "stop"}]}
BODY = json.dumps({**MESSAGE, "usage": {"prompt_tokens": 300, "completion_tokens": 8}}).encode()
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(BODY),
    BODY,
)


def serve_replies(slots: int, pipe: Connection) -> None:
    """Answer every request after ``LATENCY``; send the port, and the number of requests for each message."""
    request_counts: Counter[int] = Counter()

    async def run_server() -> None:
        free = asyncio.Semaphore(slots)

        async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    size = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                    request_counts[hash(await reader.readexactly(size))] += 1
                    async with free:
                        await asyncio.sleep(LATENCY)
                    writer.write(REPLY)
                    await writer.drain()
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        server = await asyncio.start_server(handle_connection, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        while True:
            while not pipe.poll():
                await asyncio.sleep(0.02)
            pipe.recv()
            pipe.send((len(request_counts), sum(request_counts.values())))

    asyncio.run(run_server())


def ask_one_question(number: int) -> Script:
    """Send one request."""
    given = {"caption": f"A dog runs across beach number {number}.", "changed": "A cat runs across it."}
    answer = yield from ask_until_valid(PromptInput("validate_negative", given, 1, 0.0), 1)
    return Outcome(str(answer), 1, "", ())


def ask_questions(port: int, number: int, workers: int, store: Path, pipe: Connection) -> None:
    """Send all requests.

    Report seconds, CPU seconds, and the peak resident memory in MB after a tenth and at the end.
    """
    os.environ["NO_PROXY"] = "127.0.0.1"
    model = ChatLanguageModel(Endpoint("m", f"http://127.0.0.1:{port}/v1", slots=ConnectionSlots(workers)))
    peaks: list[float] = []

    def iter_scripts() -> Iterator[Any]:
        for i in range(number):
            if i == number // 10:
                peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            yield ask_one_question(i)

    begun = time.monotonic()
    with open_replies(store) as replies:
        manner = RequestSettings("m", 1, 7, 64, False, workers)
        spent = Usage(Budget(0.15, 0.6, None, None, None))
        asking = Scheduler(
            iter_scripts(),
            number,
            request_settings=manner,
            judges={},
            store=replies,
            spent=spent,
            title="requests",
        )
        asking.run(NamedModel("m", lambda: model))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    used = resource.getrusage(resource.RUSAGE_SELF)
    pipe.send((time.monotonic() - begun, used.ru_utime + used.ru_stime, *peaks))


@click.command()
@click.option("--requests", "number", default=10_000, show_default=True, type=click.IntRange(min=100))
@click.option("--slots", default=16, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--max-connections", type=click.IntRange(min=1), help="Open requests. Default: 1.5 times the slots."
)
@click.option("--kill", is_flag=True, help="Kill the client half-way and restart it.")
def main(number: int, slots: int, max_connections: int | None, kill: bool) -> None:
    """Measure and print; see the module's docstring."""
    max_connections = max_connections or slots + slots // 2
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve_replies, args=(slots, theirs), daemon=True)
    server.start()
    port = ours.recv()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "replies.sqlite"
        here, sender = context.Pipe()
        for turn in range(2 if kill else 1):
            asking = context.Process(
                target=ask_questions, args=(port, number, max_connections, store, sender)
            )
            asking.start()
            while kill and turn == 0:
                ours.send("?")
                if ours.recv()[1] > number // 2:
                    os.kill(asking.pid or 0, signal.SIGKILL)
                    break
                time.sleep(0.02)
            asking.join()
        seconds, busy, early, late = here.recv()
        size = store.stat().st_size / 1e6
    ours.send("?")
    different, all_of_them = ours.recv()
    server.terminate()
    print(
        f"{different:,} requests, {all_of_them - different} of them repeated; {slots} slots, {max_connections} open requests"
    )
    if not kill:
        print(
            f"{seconds:.1f} s, {number / seconds:,.0f} per second: {number / seconds * LATENCY / slots:.1%} of the server's limit"
        )
        print(f"{busy / number * 1000:.2f} ms of CPU time per request")
    print(
        f"peak of resident memory: {early:.0f} MB after a tenth, {late:.0f} MB at the end; responses on disk: {size:.1f} MB"
    )


if __name__ == "__main__":
    main()
