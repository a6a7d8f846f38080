"""Measure the papers' pipelines at their size: `python bench/paper_scale.py --negatives 3850000 --images 1000000`.

Made-up tables, by default with as many negatives as TROHN-Text has and two scores for each, and small JPEGs of noise.
Each part runs in its own process, which reads its inputs from files as its stage does:

- `images`: source `sugarcrepe` reads at most 10,000 photographs and writes their shards.
- `score`: what stages `scores` and `refine` do to score all negatives, with the simplest scorer, `length`.
- `refine`: what stage `refine` does before it scores the remaining rows again.
- `gate`: the suites of stage `validate_captions`, with the scores of two scorers and no rejected rows.
- `select`: what stage `select_negatives` does behind its models: percentiles, cleaning, grid.
- `filter`: stage `filter_images` without a judge, for an image of every tenth negative.
- `assemble`: the training set of all pairs, with these images.
- `load`: the rows of `trohn_text`, one for each negative, and their tokens, as its training loads them.
- `index`: an index of `--images` images: read, opened, looked up, written with other paths.

Prints a table: rows, seconds, seconds of the processor, and the peak memory of the part's largest process and of all its
processes together. A part that exceeds `--limit` is stopped. Nothing is downloaded.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import click
import numpy as np
import pandas as pd
import psutil
from PIL import Image

from caramel.blind.scores import read_by_scorer, write_scores
from caramel.gates import gates
from caramel.io.image_shards import ShardWriter
from caramel.io.image_store import ImageStore, rewrite_shard_paths
from caramel.io.safe_yaml import read_yaml
from caramel.models.open_clip.checkpoints import build_model
from caramel.models.open_clip.config import assemble_clip
from caramel.refine.best_negatives import read_audit_rows, write_selected
from caramel.refine.selection import find_reasons
from caramel.refine.stored_tables import refine_stored_tables
from caramel.registry import METHODS
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.contracts import Table
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table, write_table_parts
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.scores import SCORES
from caramel.schemas.stored import StoredTable
from caramel.schemas.training import TRAINING
from caramel.sources.images.assemble import PAIR_COLUMNS, assemble_datasets
from caramel.sources.images.filters import FilterSettings, filter_images
from caramel.sources.images.judges import build_no_judge
from caramel.sources.sugarcrepe_images import read_benchmark_pairs
from caramel.training.data.batch import assemble_batch, draw_step_rows
from caramel.training.data.examples import load_examples
from caramel.training.data.row_units import RowCounts
from caramel.training.variants import split_rows

SEED, CAPTIONS, PER_PAIR, GOAL_GB = 1, 5, 7, 4.0
CHUNK = 100_000  # pairs whose rows are in memory at a time while the inputs are written
STORED, PHOTOGRAPHS = 10_000, 10_000  # small JPEGs that the indices share, and photographs
INTERVAL = 0.1  # seconds between two looks at the memory
DONE = "inputs_are_complete"
SCORERS = ("plausibility", "acceptability")
# As CLIP ViT-B/32 for texts (77 tokens of open_clip's own tokenizer), with a model that takes no memory.
SMALL_CLIP = {
    "embed_dim": 32,
    "quick_gelu": False,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}
ROOT = Path(__file__).resolve().parents[1]


def write_inputs(folder: Path, negatives: int, images: int) -> None:
    """Write all inputs of the parts into ``folder``.

    Tables hold seven negatives for each caption, five captions for each image, and an image of every tenth negative.
    """
    pairs = -(-negatives // PER_PAIR)
    rng = np.random.default_rng(SEED)
    write_table_parts(PAIRS, _iter_pairs(pairs, rng), folder / "pairs.parquet", by="image_id")
    write_table_parts(
        NEGATIVES, _iter_negatives(pairs, negatives, rng), folder / "negatives.parquet", by="pair_id"
    )
    write_table(PARAPHRASES, build_frame(PARAPHRASES, []), folder / "paraphrases.parquet")
    names = read_table(NEGATIVES, folder / "negatives.parquet", ["negative_id"])
    scores = (
        names.assign(
            scorer=scorer,
            positive_score=rng.random(negatives).round(6),
            negative_score=rng.random(negatives).round(6),
        )
        for scorer in SCORERS
    )
    write_table_parts(SCORES, scores, folder / "scores.parquet", by="scorer")
    chosen = names["negative_id"][::10].reset_index(drop=True)
    candidates = pd.DataFrame({"negative_id": chosen, "image_id": chosen + "#0"}).assign(
        candidate=0, seed=SEED, generator="made up", prompt="A caption.", positive_image_id=None, scene=None
    )
    write_table(CANDIDATES, build_frame(CANDIDATES, candidates), folder / "candidates.parquet")
    stored = _write_shard(folder)
    numbers = pd.Series(np.arange(-(-pairs // CAPTIONS))).astype("str")
    for name, ids in (
        ("images", numbers),
        ("drawn", candidates["image_id"]),
        ("index", pd.Series(np.arange(images)).astype("str").str.zfill(12)),
    ):
        rows = stored.iloc[np.arange(len(ids)) % len(stored)].reset_index(drop=True)
        write_table(IMAGES, rows.assign(image_id=ids), folder / f"{name}.parquet")
    write_photographs(folder / "sugarcrepe", min(images, PHOTOGRAPHS))


def _iter_pairs(pairs: int, rng: np.random.Generator) -> Iterator[pd.DataFrame]:
    for start in range(0, pairs, CHUNK):
        number = pd.Series(np.arange(start, min(start + CHUNK, pairs)))
        image = number // CAPTIONS
        split = pd.Series(np.where(image % 5 == 0, "val", "train"), dtype="str")
        yield build_frame(
            PAIRS,
            pd.DataFrame({"pair_id": _name_pairs(number), "image_id": image.astype("str")}).assign(
                caption=_draw_texts(len(number), 9, rng), scene=None, split=split, source="files"
            ),
        )


def _iter_negatives(pairs: int, count: int, rng: np.random.Generator) -> Iterator[pd.DataFrame]:
    for start in range(0, pairs, CHUNK):
        number = pd.Series(np.repeat(np.arange(start, min(start + CHUNK, pairs)), PER_PAIR))
        number = number[: count - start * PER_PAIR]
        subtype = pd.Series(np.resize(np.array(SUBTYPES[:PER_PAIR]), len(number)), dtype="str")
        rows = pd.DataFrame({"pair_id": _name_pairs(number), "subtype": subtype})
        yield build_frame(
            NEGATIVES,
            rows.assign(
                negative_id=rows["pair_id"] + ":" + subtype,
                type=subtype.str.partition("_")[0],
                negative_caption=_draw_texts(len(rows), 10, rng),
                generator="made up",
                seed=SEED,
                attempt=1,
                compounds=None,
            ),
        )


def _name_pairs(number: pd.Series) -> pd.Series[str]:
    return number.astype("str").str.zfill(7)


def _draw_texts(rows: int, length: int, rng: np.random.Generator) -> pd.Series[str]:
    """Return texts of ``length`` words; SugarCrepe's have 11 words and 55.5 characters in the mean, these 10 and 55."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(rng.choice(letters, 2 + number % 6)) for number in range(5000)])
    columns = [pd.Series(words[rng.integers(0, len(words), rows)], dtype="str") for _ in range(length)]
    text = columns[0].str.capitalize()
    for column in columns[1:]:
        text = text + " " + column
    return text + "."


def _write_shard(folder: Path) -> pd.DataFrame:
    """Write a shard of small JPEGs, and return their rows of table ``images``; indices share these files."""
    rng = np.random.default_rng(SEED)
    with ShardWriter(folder / "images") as shards:
        for number in range(STORED):
            data = io.BytesIO()
            Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(data, "JPEG")
            shards.add_image(
                str(number),
                data.getvalue(),
                f"{number}.jpg",
                width=32,
                height=32,
                source="files",
                split="train",
            )
    return shards.build_index()


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


def run_score(folder: Path) -> int:
    """Score the captions by their lengths; return the number of scores."""
    write_scores(
        read_table(PAIRS, folder / "pairs.parquet", ["pair_id", "image_id", "caption"]),
        StoredTable(NEGATIVES, folder / "negatives.parquet"),
        folder / "scored",
        scorers=["length"],
        folds=5,
        seed=SEED,
    )
    return len(read_table(SCORES, folder / "scored" / "scores.parquet", ["positive_score"]))


def run_refine(folder: Path) -> int:
    """Refine the captions; return the number of remaining negatives."""
    out = folder / "refined"
    refine_stored_tables(
        folder / "pairs.parquet", folder / "negatives.parquet", folder / "paraphrases.parquet",
        folder / "scores.parquet", out,
        scorers=SCORERS, cell=0.02, within="subtype", exempt=(), folds=5, seed=SEED,
    )  # fmt: skip
    return len(read_table(NEGATIVES, out / "negatives.parquet", ["type"]))


def run_gate(folder: Path) -> int:
    """Validate the captions; return the number of negatives."""
    pairs, negatives, paraphrases = (
        StoredTable(table, folder / f"{table.name}.parquet") for table in (PAIRS, NEGATIVES, PARAPHRASES)
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
    return len(negatives[["type"]])


def run_select(folder: Path) -> int:
    """Select negatives by the scores of the table; return the number of selected ones."""
    negatives = folder / "negatives.parquet"
    rows = read_audit_rows(negatives, folder / "pairs.parquet")
    sides: list[np.ndarray] = []
    for column in ("positive_score", "negative_score"):
        scores = read_table(SCORES, folder / "scores.parquet", [column])[column].to_numpy()
        sides.append(scores.reshape(len(SCORERS), -1).T)
    reasons = find_reasons(rows, *sides, scorers=SCORERS, cell=0.02, within="all", seed=SEED)
    del rows, sides
    write_selected(negatives, reasons, folder / "selected")
    return int((reasons == "").sum())


def run_filter(folder: Path) -> int:
    """Filter the images of every tenth negative without a judge; return the number of chosen ones."""
    index = folder / "drawn.parquet"
    candidates = read_table(CANDIDATES, folder / "candidates.parquet")
    images, pairs = read_table(IMAGES, index), read_table(PAIRS, folder / "pairs.parquet")
    negatives = read_table(
        NEGATIVES, folder / "negatives.parquet", only=("negative_id", set(candidates["negative_id"]))
    )
    filtered = filter_images(
        candidates, images, ImageStore(index, images), negatives, pairs,
        judge=build_no_judge(), second_judge=None, settings=FilterSettings(0.5, 0.0, ()),
    )  # fmt: skip
    write_table(CHOICES, filtered.choices, folder / "choices.parquet")
    return int(filtered.choices["chosen_by"].notna().sum())


def run_assemble(folder: Path) -> int:
    """Assemble the training set of all pairs; return the number of its rows."""

    def read(table: Table, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        return read_table(table, folder / f"{name}.parquet", columns)

    assembled = assemble_datasets(
        read(PAIRS, "pairs", PAIR_COLUMNS), folder / "negatives.parquet", read(PARAPHRASES, "paraphrases"),
        read(CHOICES, "choices"), read(IMAGES, "images"), read(IMAGES, "drawn"),
        positives="source", training="all",
    )  # fmt: skip
    write_table_parts(TRAINING, assembled.training, folder / "training.parquet", by="pair_id")
    return len(read(TRAINING, "training", ["pair_id"]))


def run_load(folder: Path) -> int:
    """Load the rows of `trohn_text` with their tokens, and a batch of them; return their number."""
    import torch

    config = {"model_cfg": SMALL_CLIP, "preprocess_cfg": {}}
    torch.manual_seed(SEED)
    clip = assemble_clip(build_model(config, "small"), config, None)
    method, index = METHODS["trohn_text"], folder / "images.parquet"
    rows, _ = split_rows(folder / "training.parquet")
    count = RowCounts.from_rows(rows).count(method, "negatives")
    images = ImageStore(index, read_table(IMAGES, index))
    examples = load_examples(clip, rows, images, method=method, unit="negatives")
    batch = assemble_batch(clip, examples, draw_step_rows(examples, 1024, SEED, 0), SEED, 0)
    assert len(examples) == count
    assert len(batch.texts) == 512
    return count


def run_index(folder: Path) -> int:
    """Read an index, open 10,000 of its images at random and write it for another folder; return its rows."""
    path = folder / "index.parquet"
    rows = read_table(IMAGES, path)
    store = ImageStore(path, rows)
    for number in np.random.default_rng(SEED).integers(0, len(rows), PHOTOGRAPHS):
        store.read_verified(rows["image_id"].iloc[number])
    write_table(
        IMAGES, rewrite_shard_paths(rows, folder, folder / "moved"), folder / "moved" / "index.parquet"
    )
    return len(rows)


PARTS: dict[str, Callable[[Path], int]] = {
    "images": run_images,
    "score": run_score,
    "refine": run_refine,
    "gate": run_gate,
    "select": run_select,
    "filter": run_filter,
    "assemble": run_assemble,
    "load": run_load,
    "index": run_index,
}


def run_part(part: str, folder: Path, limit: float) -> list[str]:
    """Run one part in its own process; return its row of the table.

    Args:
        limit: GB of resident memory of one process at which the part is stopped.
    """
    start, largest, together, cpu = time.perf_counter(), 0, 0, 0.0
    with psutil.Popen(
        [sys.executable, __file__, "--here", "--part", part, "--folder", str(folder)], stdout=subprocess.PIPE
    ) as process:
        while process.poll() is None:
            memory = [_read_memory(one) for one in _list_processes(process)]
            largest, together = max(largest, *memory, 0), max(together, sum(memory))
            with suppress(psutil.Error):
                times = process.cpu_times()
                cpu = times.user + times.system + times.children_user + times.children_system
            if largest > limit * 2**30:
                for one in _list_processes(process):
                    one.kill()
            time.sleep(INTERVAL)
        output = process.stdout.read().splitlines()
    rows = output[-1].decode() if process.returncode == 0 else f"stopped, code {process.returncode}"
    seconds = time.perf_counter() - start
    return [
        part,
        rows,
        f"{seconds:.0f}",
        f"{cpu:.0f}",
        *(f"{used / 2**30:.2f}" for used in (largest, together)),
    ]


def _list_processes(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return [process, *process.children(recursive=True)]
    return []


def _read_memory(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


@click.command()
@click.option("--negatives", default=3_500_000, show_default=True, type=click.IntRange(100))
@click.option("--images", default=1_000_000, show_default=True, type=click.IntRange(10))
@click.option("--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="Default: all.")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder of the inputs, to use them again.")
@click.option("--limit", default=6.0, show_default=True, help="GB of a process at which its part is stopped.")
@click.option("--here", is_flag=True, help="Run one part in this process, on existing inputs.")
def main(
    negatives: int, images: int, parts: tuple[str, ...], folder: Path | None, limit: float, here: bool
) -> None:
    """Print the results as a table; exit with code 1 if a part takes more than 4 GB or is stopped.

    Example: python bench/paper_scale.py --negatives 10000000 --images 1000000 --folder /data/scale
    """
    if here:
        assert folder is not None
        click.echo(PARTS[parts[0]](folder))
        return
    with tempfile.TemporaryDirectory() as temporary:
        inputs = folder or Path(temporary)
        inputs.mkdir(parents=True, exist_ok=True)
        if not (inputs / DONE).exists():
            write_inputs(inputs, negatives, images)
            (inputs / DONE).touch()
        click.echo("| part | rows | wall s | CPU s | largest process, GB | all processes, GB |")
        click.echo("|---|---|---|---|---|---|")
        results = []
        for part in parts or PARTS:
            results.append(run_part(part, inputs, limit))
            click.echo(f"| {' | '.join(results[-1])} |")
    if any(float(result[4]) > GOAL_GB or not result[1].isdigit() for result in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
