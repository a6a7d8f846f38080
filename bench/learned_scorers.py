"""Time and accuracy of blind scorers on SugarCrepe: `python bench/learned_scorers.py FOLDER --scorer SPEC …`.

FOLDER holds SugarCrepe's JSON files. Each scorer is trained on the other folds (five folds of images, type
by type) and scored on the held-out fold, as the stage `scores` does. The sample has equally many
rows of each subtype. `--part tune` samples images that `--part test` never has: choose settings on
`tune`, and report `test`. `--rows 0` takes all rows.

Prints a line per scorer: rows, accuracy with its 95 % interval, wall time and processor time.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np
import pandas as pd

from caramel.blind.blind_accuracy import compute_blind_accuracy
from caramel.blind.scores import score_pairs
from caramel.runtime.environment import be_quiet
from caramel.sources.sugarcrepe_files import read_captions
from caramel.utils.hashing import assign_folds, compute_stable_keys

FOLDS, SEED = 5, 3


def sample_rows(folder: Path, number: int, part: str) -> pd.DataFrame:
    """Return ``number`` rows, equally many of each subtype, drawn from the images of a part; 0: all rows."""
    rows = read_captions(folder)
    rows["type"] = rows["subtype"].str.partition("_")[0]
    if not number:
        return rows
    half = assign_folds(rows["image_id"].tolist(), folds=2, seed=SEED)
    rows = rows[half == ("test", "tune").index(part)]
    rows = rows.iloc[np.argsort(compute_stable_keys(rows["pair_id"].tolist(), SEED), kind="stable")]
    rank_in_subtype = rows.groupby("subtype").cumcount()
    sample: pd.DataFrame = rows[rank_in_subtype < number // rows["subtype"].nunique()].reset_index(drop=True)
    return sample


def measure_scorer(rows: pd.DataFrame, spec: str) -> str:
    """Return the accuracy of a scorer and its time, in words."""
    wall, processor = time.perf_counter(), time.process_time()
    pairs = rows[["pair_id", "image_id", "caption"]]
    negatives = rows[["pair_id", "type", "subtype", "negative_caption"]].assign(negative_id=rows["pair_id"])
    scores = score_pairs(pairs, negatives, scorers=[spec], folds=FOLDS, seed=SEED)
    figures = compute_blind_accuracy(scores, negatives, pairs=pairs, folds=FOLDS)[spec]
    shares = [100 * figures["all"][name] for name in ("accuracy", "ci_low", "ci_high")]
    by_type = ", ".join(
        f"{name} {100 * figures[name]['accuracy']:.1f}" for name in ("add", "replace", "swap")
    )
    return (
        f"{spec.partition(':')[0]}: {len(rows)} rows, {shares[0]:.1f} % [{shares[1]:.1f}, {shares[2]:.1f}] "
        f"({by_type}), {time.perf_counter() - wall:.0f} s, {time.process_time() - processor:.0f} s of processor"
    )


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--scorer", "specs", multiple=True, required=True, help="Blind scorer, repeatable.")
@click.option("--rows", "number", default=700, show_default=True, type=click.IntRange(min=0))
@click.option("--part", default="test", show_default=True, type=click.Choice(["test", "tune"]))
def main(folder: Path, specs: tuple[str, ...], number: int, part: str) -> None:
    """Measure and print; see the module's docstring."""
    be_quiet()
    rows = sample_rows(folder, number, part)
    for spec in specs:
        print(measure_scorer(rows, spec), flush=True)


if __name__ == "__main__":
    main()
