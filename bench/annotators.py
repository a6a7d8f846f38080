"""Simulate annotators at once over HTTP: is an answer lost or doubled, and how long does the server take to reply?

    python bench/annotators.py
    python bench/annotators.py --annotators 20 --items 500

Starts `caramel annotate` as a process. Annotators answer without a pause until no item is left, ITEMS each on average. They
send one answer in ten twice, and load the images of one item in ten. A reply is an answer stored (synced to disk) and the
next item. Prints counts, and percentiles of the response time in milliseconds.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from annotation_tasks import Client, image_task, list_keys

from caramel.annotation.accounts import add_accounts
from caramel.annotation.answers import read_answers

TWICE = 0.1  # share of answers that are sent twice, as by a browser that lost the reply


class Annotator(threading.Thread):
    """Answers items until there are no more, and notes which and how long each reply took."""

    def __init__(self, name: str, origin: str, secret: str) -> None:
        super().__init__()
        self.client = Client(origin, secret, page=f"page-{name}")
        self.annotator, self.random = name, random.Random(name)
        self.items: list[str] = []
        self.seconds: list[float] = []

    def run(self) -> None:
        """Work like a page: hold two items, answer the first."""
        queue = self.client.start()
        while queue:
            item = queue.pop(0)
            (question,) = item["questions"]
            if self.random.random() < 0.1:
                for option in question["options"]:
                    if option["image"]:
                        self.client.session.get(f"{self.client.origin}/image/{option['image']}", timeout=60)
            response = self.random.randrange(len(question["options"]))
            holding = [other["item_key"] for other in queue]
            for _ in range(2 if self.random.random() < TWICE else 1):
                start = time.perf_counter()
                reply = self.client.answer(item["item_key"], response, holding=holding)
                self.seconds.append(time.perf_counter() - start)
                reply.raise_for_status()
                queue += reply.json()["items"]
                holding = [other["item_key"] for other in queue]
            self.items.append(item["item_key"])


def main() -> None:
    """Run the annotators and print what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--annotators", type=int, default=20)
    parser.add_argument("--items", type=int, default=500, help="items per annotator, on average")
    parser.add_argument("--overlap", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        count = options.annotators * options.items // options.overlap
        path = image_task(folder, count, overlap=options.overlap)
        secrets = add_accounts(
            folder / "accounts.json", [f"a{number:02}" for number in range(options.annotators)]
        )
        command = [sys.executable, "-c", "import sys; from caramel.cli import main; main(sys.argv[1:])"]
        arguments = ["annotate", str(path), "--accounts", str(folder / "accounts.json"), "--port", "0"]
        server = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout
            link = re.search(r"(http://[^/]+)/", server.stdout.readline())
            assert link
            time.sleep(2)  # the socket listens before the server does
            people = [Annotator(name, link[1], secret) for name, secret in secrets.items()]
            start = time.perf_counter()
            for person in people:
                person.start()
            for person in people:
                person.join()
            seconds = time.perf_counter() - start
        finally:
            server.terminate()
            server.wait()
        rows = read_answers(path)
        stored = zip(rows["item_id"].map(list_keys(path)), rows["annotator"], strict=True)
    print_result(people, stored, seconds, count)


def print_result(people: list[Annotator], stored: object, seconds: float, count: int) -> None:
    """Print lost and doubled answers, and response times."""
    given = [(item, person.annotator) for person in people for item in person.items]
    rows = [*stored]  # type: ignore[misc]
    lost, doubled = set(given) - set(rows), len(rows) - len(set(rows))
    twice = len(given) - len(set(given))
    overlaps = Counter(Counter(item for item, _ in rows).values())
    times = 1000 * np.concatenate([person.seconds for person in people])
    p50, p95, p99 = np.percentile(times, (50, 95, 99))
    print(f"{len(people)} annotators, {len(given)} answers, {len(times)} requests in {seconds:.0f} s")
    print(f"lost {len(lost)}, doubled {doubled}, given twice to one annotator {twice}")
    print(f"answers per item: {dict(sorted(overlaps.items()))} of {count} items")
    print(f"response time in ms: median {p50:.0f}, p95 {p95:.0f}, p99 {p99:.0f}, longest {times.max():.0f}")
    sys.exit(bool(lost or doubled or twice))


if __name__ == "__main__":
    main()
