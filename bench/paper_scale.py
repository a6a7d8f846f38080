"""Measure the papers' pipelines at their size: `python bench/paper_scale.py`.

Made-up tables, as many negatives as TROHN-Text has and two scores for each, and photographs of noise. Each part runs in
its own process, which reads its inputs from files as its stage does:

- `images`: source `sugarcrepe` reads the photographs and writes their shards.
- `gate`: the suites of stage `validate_captions`, with the scores of two scorers and no rejected rows.
- `select`: what stage `select_negatives` does behind its models: percentiles, cleaning, grid.
- `assemble`: the training set of all pairs, a tenth of their negatives drawn.
- `rows`: the rows of `trohn_text`, one for each negative.

Prints one JSON object: seconds and peak memory of each part, with reading and writing. Nothing is downloaded.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from PIL import Image

from caramel.blind.scores import read_by_scorer
from caramel.gates import gates
from caramel.io.image_shards import ShardWriter
from caramel.io.safe_yaml import read_yaml
from caramel.refine.best_negatives import build_rows
from caramel.refine.selection import select_negatives
from caramel.registry import METHODS
from caramel.schemas.candidates import CHOICES
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.contracts import Table
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.scores import SCORES
from caramel.schemas.training import TRAINING
from caramel.sources.images.assemble import NEGATIVE_COLUMNS, PAIR_COLUMNS, assemble_datasets
from caramel.sources.sugarcrepe_images import read_benchmark_pairs
from caramel.training.data.row_units import RowCounts, build_method_rows

SEED, CAPTIONS, GOAL_GB = 1, 5, 4.0
SCORERS = ("plausibility", "acceptability")
ROOT = Path(__file__).resolve().parents[1]


def write_tables(folder: Path, count: int) -> None:
    """Write tables of ``count`` negatives, seven for each caption and five captions for each image."""
    rng, words = np.random.default_rng(SEED), np.array([f"word{i}" for i in range(5000)])
    pairs = -(-count // 7)

    def draw_texts(rows: int, length: int) -> pd.Series:
        columns = [pd.Series(words[rng.integers(0, len(words), rows)], dtype="str") for _ in range(length)]
        text = columns[0].str.capitalize()
        for column in columns[1:]:
            text = text + " " + column
        return text + "."

    number = pd.Series(np.arange(pairs))
    pair_id = number.astype("str").str.zfill(7)
    frame = pd.DataFrame({"pair_id": pair_id, "image_id": (number // CAPTIONS).astype("str")})
    split = pd.Series(np.where(number // CAPTIONS % 5 == 0, "val", "train"), dtype="str")
    frame = frame.assign(caption=draw_texts(pairs, 9), scene=None, split=split, source="files")
    write_table(PAIRS, build_frame(PAIRS, frame), folder / "pairs.parquet")
    write_table(PARAPHRASES, build_frame(PARAPHRASES, []), folder / "paraphrases.parquet")
    of, subtype = np.repeat(np.arange(pairs), 7)[:count], np.tile(np.array(SUBTYPES[:7]), pairs)[:count]
    own = pair_id.array[of]
    negatives = pd.DataFrame({"pair_id": own, "subtype": pd.Series(subtype, dtype="str")})
    negatives["negative_id"] = negatives["pair_id"] + ":" + negatives["subtype"]
    negatives["type"] = negatives["subtype"].str.partition("_")[0]
    negatives = negatives.assign(
        negative_caption=draw_texts(count, 10), generator="made up", seed=SEED, attempt=1, compounds=None
    )
    write_table(NEGATIVES, build_frame(NEGATIVES, negatives), folder / "negatives.parquet")
    scores = [
        negatives[["negative_id"]].assign(
            scorer=name, positive_score=rng.random(count).round(6), negative_score=rng.random(count).round(6)
        )
        for name in SCORERS
    ]
    write_table(SCORES, build_frame(SCORES, pd.concat(scores, ignore_index=True)), folder / "scores.parquet")
    drawn = negatives["negative_id"][::10].reset_index(drop=True)
    choices = pd.DataFrame({"negative_id": drawn, "image_id": drawn + "#0"}).assign(
        candidate=0, faithful=1.0, ambiguous=False, judge_negative=None, judge_positive=None, positive_image_id=None,
        chosen_by="none",
    )  # fmt: skip
    write_table(CHOICES, build_frame(CHOICES, choices), folder / "choices.parquet")
    for name, ids in (("images", frame["image_id"].drop_duplicates()), ("drawn", choices["image_id"])):
        index = pd.DataFrame({"image_id": ids}).assign(
            shard="00000.parquet",
            offset=0,
            length=1,
            sha256="0" * 64,
            width=1,
            height=1,
            source="files",
            split="train",
        )
        write_table(IMAGES, build_frame(IMAGES, index), folder / f"{name}.parquet")


def write_photographs(folder: Path, count: int) -> None:
    """Write ``count`` JPEGs of 256 pixels and SugarCrepe's JSON with a row on each."""
    (folder / "images").mkdir(parents=True)
    rng, rows = np.random.default_rng(SEED), {}
    for number in range(count):
        name = f"{number:012}.jpg"
        coarse = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
        coarse.resize((256, 256), Image.Resampling.BICUBIC).save(folder / "images" / name, quality=85)
        rows[str(number)] = {
            "filename": name,
            "caption": f"a dog {number}",
            "negative_caption": f"a cat {number}",
        }
    (folder / "replace_obj.json").write_text(json.dumps(rows))


def run_images(folder: Path) -> int:
    """Read the photographs as source `sugarcrepe`; return their number."""
    with ShardWriter(folder / "shards") as shards:
        source = read_benchmark_pairs(
            data_dir=str(folder / "sugarcrepe"), val_test_frac=(0.1, 0.9), seed=SEED, put=shards.add_image
        )
    write_table(IMAGES, build_frame(IMAGES, shards.build_index()), folder / "read.parquet")
    return len(source.pairs)


def run_gate(folder: Path) -> int:
    """Validate the captions; return the number of negatives."""
    pairs, negatives, paraphrases = (
        read_table(table, folder / f"{table.name}.parquet") for table in (PAIRS, NEGATIVES, PARAPHRASES)
    )
    params = read_yaml(ROOT / "params.yaml", "")["validate_captions"]
    gates.validate_captions(
        pairs,
        negatives,
        paraphrases,
        read_by_scorer(folder / "scores.parquet"),
        build_frame(NEGATIVES, []),
        thresholds=gates.CaptionThresholds(**{**params, "blind_tolerance": 0.5, "acceptance": "not_refuted"}),
        folds=5,
        seed=SEED,
        folder=ROOT / "expectations",
        docs_folder=folder / "docs",
    )
    return len(negatives)


def run_select(folder: Path) -> int:
    """Select negatives by the scores of the table; return the number of selected ones."""
    negatives = read_table(NEGATIVES, folder / "negatives.parquet")
    rows = build_rows(
        negatives, read_table(PAIRS, folder / "pairs.parquet", ["pair_id", "image_id", "caption"])
    )
    sides: list[np.ndarray] = []
    for column in ("positive_score", "negative_score"):
        scores = read_table(SCORES, folder / "scores.parquet", [column])[column].to_numpy()
        sides.append(scores.reshape(len(SCORERS), -1).T)
    selected = select_negatives(rows, *sides, scorers=SCORERS, cell=0.02, within="all", seed=SEED)
    keep = negatives["negative_id"].isin(selected.rows["pair_id"])
    write_table(NEGATIVES, negatives[keep], folder / "selected.parquet")
    return int(keep.sum())


def run_assemble(folder: Path) -> int:
    """Assemble the training set of all pairs; return the number of its rows."""

    def read(table: Table, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        return read_table(table, folder / f"{name}.parquet", columns)

    assembled = assemble_datasets(
        read(PAIRS, "pairs", PAIR_COLUMNS), read(NEGATIVES, "negatives", NEGATIVE_COLUMNS),
        read(PARAPHRASES, "paraphrases"),
        read(CHOICES, "choices"), read(IMAGES, "images"), read(IMAGES, "drawn"),
        positives="source", training="all",
    )  # fmt: skip
    write_table(TRAINING, assembled.training, folder / "training.parquet")
    return len(assembled.training)


def run_rows(folder: Path) -> int:
    """Build the rows of `trohn_text`; return their number."""
    training = read_table(TRAINING, folder / "training.parquet")
    rows = build_method_rows(training, METHODS["trohn_text"], "negatives")
    assert len(rows) == RowCounts.from_rows(training).count(METHODS["trohn_text"], "negatives")
    return len(rows)


PARTS: dict[str, Callable[[Path], int]] = {
    "images": run_images,
    "gate": run_gate,
    "select": run_select,
    "assemble": run_assemble,
    "rows": run_rows,
}


def run_part(part: str, folder: Path) -> dict[str, Any]:
    """Run one part in this process; return its number of rows, seconds and peak memory."""
    start = time.perf_counter()
    rows = PARTS[part](folder)
    # Not ``ru_maxrss``: a new process inherits its parent's.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 2**20  # of kB
    return {"rows": rows, "seconds": round(time.perf_counter() - start, 1), "peak_gb": round(peak, 2)}


@click.command()
@click.option("--negatives", default=3_500_000, show_default=True, type=click.IntRange(100))
@click.option("--images", default=10_000, show_default=True, type=click.IntRange(10))
@click.option("--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="Default: all.")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder of the inputs, to use them again.")
@click.option("--here", is_flag=True, help="Run one part in this process, on existing inputs.")
def main(negatives: int, images: int, parts: tuple[str, ...], folder: Path | None, here: bool) -> None:
    """Print the results as JSON; exit with code 1 if a part takes more than 4 GB."""
    if here:
        assert folder is not None
        click.echo(json.dumps(run_part(parts[0], folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        inputs = folder or Path(temporary)
        inputs.mkdir(parents=True, exist_ok=True)
        if not (inputs / "drawn.parquet").exists():
            write_tables(inputs, negatives)
        if not (inputs / "sugarcrepe").exists():
            write_photographs(inputs / "sugarcrepe", images)
        results = {}
        for part in parts or PARTS:
            command = [sys.executable, __file__, "--here", "--part", part, "--folder", str(inputs)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            results[part] = json.loads(done.stdout.splitlines()[-1])
    click.echo(json.dumps(results, indent=2))
    if any(result["peak_gb"] > GOAL_GB for result in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
