"""Measure the seconds to read and score the public files: `CARAMEL_DATA=FOLDER python bench/public_files.py`.

The folder holds ``sugarcrepe/``, ``sugarcrepe_pp/`` and ``sugarcrepe_unrefined/``. Printed are the CPU time
of this process, the least of a few runs, and the time of `caramel --help`, which is the start of Python and
click.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from caramel.audit.files.inputs import read_rows
from caramel.blind.scores import score_pairs

SETS = ("sugarcrepe", "sugarcrepe_pp", "sugarcrepe_unrefined")
SCORERS = ("length", "final_punctuation", "casing", "ngram", "probe")


def measure_least_seconds(
    work: Callable[[], object], runs: int, clock: Callable[[], float] = time.process_time
) -> float:
    """Return the least seconds of a few runs."""
    seconds = []
    for _ in range(runs):
        start = clock()
        work()
        seconds.append(clock() - start)
    return min(seconds)


def main() -> None:
    """Print one result per line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("CARAMEL_DATA"), help="CARAMEL_DATA")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if options.data is None:
        parser.error("name the folder of the public files with --data or CARAMEL_DATA")
    start = [sys.executable, "-c", "from caramel import cli; cli.main(['--help'])"]
    quick = measure_least_seconds(
        lambda: subprocess.run(start, check=True, capture_output=True), options.runs, time.perf_counter
    )
    print(f"caramel --help: {quick:.2f} s of wall time")
    for name in SETS:
        rows = read_rows(options.data / name).rows
        read = measure_least_seconds(partial(read_rows, options.data / name), options.runs)
        pairs = rows[["pair_id", "image_id", "caption"]]
        negatives = rows[["pair_id", "type", "subtype", "negative_caption"]].assign(
            negative_id=rows["pair_id"]
        )
        work = partial(score_pairs, pairs, negatives, scorers=SCORERS, folds=5, seed=0)
        scored = measure_least_seconds(work, 1)
        print(f"{name}: {len(rows)} rows read in {read:.2f} s, scored by {len(SCORERS)} in {scored:.1f} s")


if __name__ == "__main__":
    main()
