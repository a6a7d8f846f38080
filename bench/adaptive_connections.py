"""Measure how much of a server's throughput `max_connections: auto` reaches, beside fixed numbers.

    python bench/adaptive_connections.py --requests 2000 --slots 16
    python bench/adaptive_connections.py --busy refuses --connections auto --requests 10000

A server in its own process works on ``--slots`` requests at a time and takes ``--latency`` seconds for each, so its
limit is slots / latency per second. Further requests wait in a queue, or are refused with status 429. One line for each
kind of server and number of connections says what share of the limit was reached, how many requests were at the
server at most, and how many were refused. Fixed numbers get fewer requests, enough for ``FEW`` latencies.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

import click
from replies import REPLY

from caramel.interfaces.connections import AUTO, MaxConnections
from caramel.interfaces.language_model import ModelOutput, Request
from caramel.models.chat.concurrency import ConnectionSlots
from caramel.models.chat.endpoint import Endpoint
from caramel.models.llm.chat import ChatLanguageModel

FEW = 20  # replies of each slot in use, for a fixed number
REFUSAL = b"HTTP/1.1 429 Too Many Requests\r\n%sContent-Length: 0\r\n\r\n"
ASKED = Request((("user", "Does it follow? A dog runs across the beach."),), 0.0, 0, 64, None)


class ServerSettings(NamedTuple):
    """A server: requests that it works on at a time, seconds of each, and what it does with further ones."""

    slots: int
    latency: float
    refuses: bool
    retry_after: int | None  # seconds, in the header of a refusal


def serve_requests(settings: ServerSettings, pipe: Connection) -> None:
    """Answer or refuse requests; send the port, and for each message the most requests at a time and the refusals."""
    wait = f"Retry-After: {settings.retry_after}\r\n" if settings.retry_after is not None else ""
    refusal = REFUSAL % wait.encode()
    present = most = refused = 0

    async def run_server() -> None:
        free = asyncio.Semaphore(settings.slots)

        async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal present, most, refused
            try:
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
                    most = max(most, present + 1)
                    if settings.refuses and present == settings.slots:
                        refused += 1
                        writer.write(refusal)
                        continue
                    present += 1
                    async with free:
                        await asyncio.sleep(settings.latency)
                    present -= 1
                    writer.write(REPLY)
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        server = await asyncio.start_server(handle_connection, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        while True:
            while not pipe.poll():
                await asyncio.sleep(0.02)
            pipe.recv()
            pipe.send((most, refused))

    asyncio.run(run_server())


def measure_requests(settings: ServerSettings, connections: MaxConnections, number: int) -> str:
    """Return a line of the table for one server and number of connections."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve_requests, args=(settings, theirs), daemon=True)
    server.start()
    slots = ConnectionSlots(connections)
    model = ChatLanguageModel(Endpoint("m", f"http://127.0.0.1:{ours.recv()}/v1", slots=slots))
    left, unanswered = number, 0

    def take_requests(most: int) -> list[tuple[str, Request]]:
        nonlocal left
        taken = min(most, left)
        left -= taken
        return [("", ASKED)] * taken

    def count_unanswered(name: str, output: ModelOutput) -> None:
        nonlocal unanswered
        unanswered += output.text is None

    begun = time.monotonic()
    model.answer_requests(take_requests, count_unanswered)
    rate = (number - unanswered) / (time.monotonic() - begun)
    ours.send("?")
    most, refused = ours.recv()
    server.terminate()
    kind = "refuses" if settings.refuses else "queues"
    share = rate * settings.latency / settings.slots
    return (
        f"{kind:8}{connections!s:>12}{number:>10,}{share:>10.1%}{slots.level:>12}{most:>10}{refused:>10}"
        f"{unanswered:>12}"
    )


@click.command()
@click.option("--requests", "number", default=2_000, show_default=True, type=click.IntRange(min=100))
@click.option("--slots", default=16, show_default=True, type=click.IntRange(min=1))
@click.option("--latency", default=1.0, show_default=True, type=click.FloatRange(min=0.001))
@click.option("--busy", type=click.Choice(["queues", "refuses"]), help="Kind of server. Default: both.")
@click.option("--retry-after", type=click.IntRange(min=0), help="Seconds that a refusal asks for.")
@click.option(
    "--connections", default="1,4,8,16,64,auto", show_default=True, help="Numbers of connections, or auto."
)
def main(
    number: int, slots: int, latency: float, busy: str | None, retry_after: int | None, connections: str
) -> None:
    """Measure and print; see the module's docstring."""
    os.environ["NO_PROXY"] = "127.0.0.1"
    print("server   connections  requests   reached   last level   most at  refusals  unanswered")
    for kind in [busy] if busy else ["queues", "refuses"]:
        settings = ServerSettings(slots, latency, kind == "refuses", retry_after)
        for text in connections.split(","):
            if text == AUTO:
                print(measure_requests(settings, AUTO, number), flush=True)
            else:
                few = min(number, FEW * min(int(text), slots))
                print(measure_requests(settings, int(text), few), flush=True)


if __name__ == "__main__":
    main()
