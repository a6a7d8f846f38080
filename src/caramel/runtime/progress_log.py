"""Show how far a loop is: a bar on a terminal, and a line now and then where the output goes to a file or pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from tqdm import tqdm

INTERVAL = 10.0  # seconds between two lines; a loop that takes less prints none
Item = TypeVar("Item")


def iter_with_progress(items: Sequence[Item], *, title: str, unit: str) -> Iterator[Item]:
    """Yield the items, and say on standard error how many are done and how much time is left.

    Args:
        items: what the loop runs over.
        title: what is computed; each line begins with it.
        unit: name of one item, singular.
    """
    if sys.stderr.isatty():
        yield from tqdm(items, desc=title, unit=unit, delay=INTERVAL / 10, leave=False)
        return
    start = last_line = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done and now - last_line >= INTERVAL:
            left = (now - start) / done * (len(items) - done)
            line = f"{title}: {done} of {len(items)} {unit}s, about {max(1, round(left))} s left"
            print(line, file=sys.stderr, flush=True)
            last_line = now
        yield item
