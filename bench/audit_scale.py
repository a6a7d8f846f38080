"""Measure time and memory of blind scores of many captions: `python bench/audit_scale.py --rows 1000000`.

The captions are artificial: words drawn by Zipf's law from a vocabulary, with the lengths of COCO's captions.
Each negative has one word replaced or added. Five rows share an image.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

from caramel.blind.sharded_scores import compute_sharded_scores
from caramel.runtime.environment import be_quiet

WORDS = 30_000
SCORERS = (
    *("length", "words", "tokens", "final_punctuation", "casing", "digits", "articles", "rare_words"),
    *("ngram", "kneser_ney", "char_ngram"),
)


def generate_audit_rows(count: int, seed: int) -> pd.DataFrame:
    """Return audit rows of artificial captions."""
    rng = np.random.default_rng(seed)
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
    words = np.array(
        [syllables[i % 80] + syllables[i // 80 % 80] + syllables[i // 6400] for i in range(WORDS)]
    )
    share = 1 / np.arange(1, WORDS + 1)
    lengths = rng.integers(7, 15, count)
    drawn = rng.choice(WORDS, size=int(lengths.sum()) + count, p=share / share.sum())
    captions, negatives, at = [], [], 0
    for length, position, longer in zip(
        lengths.tolist(),
        (lengths * rng.random(count)).astype(int).tolist(),
        rng.random(count) < 0.3,
        strict=True,
    ):
        caption_words = words[drawn[at : at + length]].tolist()
        other = [
            *caption_words[:position],
            str(words[drawn[at + length]]),
            *caption_words[position + (not longer) :],
        ]
        captions.append(f"{' '.join(caption_words).capitalize()}.")
        negatives.append(f"{' '.join(other).capitalize()}.")
        at += length + 1
    number = np.arange(count)
    return pd.DataFrame(
        {
            "pair_id": [f"p{i:08}" for i in number],
            "image_id": [f"i{i // 5:08}" for i in number],
            "type": np.array(["replace", "swap", "add"], dtype=object)[number % 3],
            "subtype": np.array(["replace_obj", "swap_obj", "add_obj"], dtype=object)[number % 3],
            "caption": captions,
            "negative_caption": negatives,
        }
    )


class PeakMemory(threading.Thread):
    """Peak memory of this process and its child processes together, sampled twice a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes, self.done = 0, threading.Event()

    def run(self) -> None:
        """Sample until ``done`` is set."""
        me = psutil.Process()
        while not self.done.wait(0.5):
            held = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    held += process.memory_full_info().uss
                except psutil.Error:
                    continue  # the process has ended
            self.bytes = max(self.bytes, held)


def main() -> None:
    """Score the captions and print seconds and memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000, help="pairs of a caption and its negative")
    parser.add_argument("--executor", choices=["inline", "ray"], default="ray")
    parser.add_argument(
        "--scorer", action="append", help="repeatable; default: all surface and n-gram scorers"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    be_quiet()
    rows = generate_audit_rows(options.rows, options.seed)
    peak = PeakMemory()
    peak.start()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        files = compute_sharded_scores(
            rows,
            options.scorer or SCORERS,
            folds=5,
            seed=options.seed,
            folder=Path(folder),
            executor=options.executor,
        )
        seconds = time.perf_counter() - start
        scored = sum(len(pd.read_parquet(path, columns=["scorer"])) for path in files)
    peak.done.set()
    peak.join()
    print(
        f"{len(rows)} pairs, {scored} scores in {len(files)} shards ({options.executor}): {seconds:.1f} s, "
        f"{peak.bytes / 2**30:.2f} GiB at most, captions included"
    )


if __name__ == "__main__":
    main()
