"""Work for hosts that share no disk: each notes on its own disk what it did."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from caramel.errors import CaramelError
from caramel.io.files import compute_file_hash, load_hashed, save_hashed
from caramel.runtime.environment import be_quiet
from caramel.runtime.ray.cluster import open_ray_session, share_session
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.runtime.ray.sharded_map import map_shards
from caramel.runtime.ray.trials import tune_grid

SHARDS, TRIALS, STEPS = 12, 3, 6


def note(what: str) -> None:
    """Add a line to what this host did."""
    with Path(os.environ["HOME"], "did").open("a") as stream:
        stream.write(f"{what}\n")


def weigh(shard: int, *, text: str, seconds: float) -> pa.Table:
    """Return a shard's number with what a file of the driver's says."""
    time.sleep(seconds)
    note(f"shard {shard}")
    return pa.table(
        {"shard": [shard], "text": [Path(text, "inner", "text").read_text()], "bytes": [bytes(shard)]}
    )


def grind(shard: int, *, text: str, seconds: float) -> pa.Table:
    """Return a shard's number after some work for a processor: a second or so for each of ``seconds``."""
    digest = bytes([shard])
    for _ in range(int(2_000_000 * seconds)):
        digest = hashlib.sha256(digest).digest()
    return pa.table({"shard": [shard], "digest": [digest]})


def learn(point: dict[str, int], scratch: str, *, text: str, seconds: float) -> dict[str, Any]:
    """Count to ``STEPS``, keep each number, and go on from the last one that was kept."""
    place = Path(scratch)
    done = max((int(name) for name in load_hashed(place, ".step")), default=0)
    note(f"trial {point['n']} from {done}")
    for step in range(done + 1, STEPS + 1):
        time.sleep(seconds)
        save_hashed(place / f"{step}.step", lambda temporary, step=step: temporary.write_text(f"{step}"))  # type: ignore[misc]
    (place / "model").mkdir(exist_ok=True)
    (place / "model" / "weights").write_text(f"{point['n']} {Path(text, 'inner', 'text').read_text()}")
    return {"n": point["n"], "steps": STEPS}


def scored(executor: str) -> list[Path]:
    """Return the blind scores of made-up captions, in shards."""
    from caramel.blind.sharded_scores import compute_sharded_scores

    nouns, colours = ("cat", "dog", "tree", "house", "boat"), ("red", "blue", "green", "grey")
    captions = [f"a {colour} {noun} and a {other}" for noun in nouns for colour in colours for other in nouns]
    rows = pd.DataFrame(
        {"caption": captions, "negative_caption": [c.replace("a ", "no ", 1) for c in captions]}
    )
    names = [f"{n:03}" for n in range(len(rows))]
    rows = rows.assign(pair_id=names, image_id=names, type="replace", subtype="replace_att")
    how = {"folds": 2, "seed": 1, "folder": Path(f"scores-{executor}"), "size": 25}
    return compute_sharded_scores(rows, ["length", "ngram"], executor=executor, **how)  # type: ignore[arg-type]


WORK: dict[str, Callable[..., pa.Table]] = {"shards": weigh, "grind": grind}


def drive(kind: str, seconds: float, executor: str) -> None:
    """Run shards or trials in the working directory, with files of its own; say how long it took and what came out."""
    be_quiet()
    text = Path("given", "inner", "text")
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_text("as it was written")
    how: dict[str, Any] = {
        "settings": {"text": LocalFile("given"), "seconds": seconds},
        "folder": f"work-{executor}",
        "executor": executor,
        "title": "test",
    }
    with share_session(), open_ray_session() if executor == "ray" else nullcontext():
        start = time.monotonic()
        if kind == "scores":
            print(json.dumps([compute_file_hash(path) for path in scored(executor)]))
        elif kind in WORK:
            paths = map_shards(WORK[kind], list(range(SHARDS)), **how)
            print(f"seconds {time.monotonic() - start:.1f}")
            print(json.dumps([path.name.split(".")[1] for path in paths]))  # of its content
        else:
            found = tune_grid(learn, [{"n": n} for n in range(TRIALS)], **how)
            files = [
                {
                    str(p.relative_to(each.folder)): p.read_text()
                    for p in sorted(each.folder.rglob("*"))
                    if p.is_file()
                }
                for each in found
            ]
            print(json.dumps([[each.result for each in found], files]))


if __name__ == "__main__":
    try:
        drive(sys.argv[1], float(sys.argv[2]), sys.argv[3])
    except CaramelError as error:
        sys.exit(f"Error: {error}")
