"""Measure speed and memory of `caramel crepe index`, for "The corpus index at a million captions" in docs/results.md.

`python bench/corpus_index.py OUT --captions 1000000` writes captions with the word lists' vocabulary, counts
their atoms and compounds, and prints the seconds and the peak memory of the main process and of Ray's
workers.
"""

from __future__ import annotations

import argparse
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq

from caramel.crepe.corpus_index import build_index
from caramel.interfaces.scene_graph import Atom
from caramel.sources.captions.words import ADJECTIVES, CONTRARY, NOUNS, choose_article

LISTS = [sorted({word for group in known.values() for word in group}) for known in (ADJECTIVES, NOUNS)]
RELATIONS = sorted(CONTRARY)


def generate_captions(number: int, seed: int) -> Iterator[str]:
    """Yield captions of one to three compounds: "a red dog above a cat and a wet car"."""
    rng = np.random.default_rng(seed)
    adjectives, nouns = LISTS
    words = [
        [known[i] for i in rng.integers(len(known), size=number).tolist()]
        for known in (adjectives, nouns, RELATIONS, nouns, adjectives, nouns)
    ]
    for row, (look, noun, relation, other, third, last) in enumerate(zip(*words, strict=True)):
        phrases = [f"{choose_article(look)} {look} {noun}", f"{relation} {choose_article(other)} {other}"]
        yield " ".join([*phrases, f"and {choose_article(third)} {third} {last}"][: 1 + row % 3])


def list_atoms() -> list[Atom]:
    """Return the words of the lists."""
    adjectives, nouns = LISTS
    return [
        *(("att", w) for w in adjectives),
        *(("obj", w) for w in nouns),
        *(("rel", w) for w in RELATIONS),
    ]


def measure_peak_memory() -> int:
    """Return the peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class WorkerMemoryMonitor(threading.Thread):
    """Samples the memory of Ray's workers: their private memory (USS), in MiB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.worker, self.all, self.number = (
            0,
            0,
            0,
        )  # maximum of one worker and of all together, and the number of workers at that time
        self._ended = threading.Event()

    def run(self) -> None:
        """Sample until ``stop``."""
        while not self._ended.wait(0.25):
            held = [
                self._read_uss(p) for p in psutil.Process().children(recursive=True) if self._is_worker(p)
            ]
            self.worker = max(self.worker, *held, 0)
            if sum(held) > self.all:
                self.all, self.number = sum(held), len(held)

    def stop(self) -> None:
        """Stop sampling."""
        self._ended.set()
        self.join()

    @staticmethod
    def _is_worker(process: psutil.Process) -> bool:
        try:
            return bool(process.cmdline()) and process.cmdline()[0].startswith("ray::")
        except psutil.Error:
            return False

    @staticmethod
    def _read_uss(process: psutil.Process) -> int:
        try:
            return int(process.memory_full_info().uss) >> 20
        except psutil.Error:
            return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--captions", type=int, default=1_000_000)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    corpus = given.out / "corpus.txt"
    corpus.write_text("".join(f"{text}\n" for text in generate_captions(given.captions, 0)), encoding="utf-8")
    before = measure_peak_memory()
    watch = WorkerMemoryMonitor()
    watch.start()
    start = time.perf_counter()
    index = build_index(corpus, list_atoms(), column="", folder=given.out)
    seconds = time.perf_counter() - start
    watch.stop()
    print(
        f"{given.captions:,} captions, {corpus.stat().st_size / 2**20:.0f} MiB, {len(list_atoms()):,} words"
    )
    print(f"{pq.read_metadata(index).num_rows:,} items in {seconds:.0f} s; the process held at most", end=" ")
    print(
        f"{measure_peak_memory()} MiB, {before} MiB before; a worker {watch.worker} MiB, all {watch.number} workers {watch.all} MiB"
    )
