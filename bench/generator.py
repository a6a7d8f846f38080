"""Measure cost and faithfulness of the object generator: `python bench/generator.py width=192 steps=800`.

Trains as in `params.yaml`, with the given keys of section `train_generator` changed. Draws first candidates
for held-out negatives of a finished run (`--data`) and reads them exactly. Printed for each guidance value
are the share of candidates with both images faithful, and the share of faithful single cells. Costs are CPU
seconds beside a lower bound: the matrix products of forward and backward passes at this machine's own rate in
the same precision.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from caramel.config.schema import load_config
from caramel.interfaces.training_settings import GeneratorConfig
from caramel.models.devices import resolve_compute, use_precision
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.sources.images.candidates import derive_candidate_seed
from caramel.sources.images.diffusion import Sampling, load_pipeline
from caramel.sources.images.editing import draw_pairs
from caramel.sources.images.generation import build_prompts, choose_negatives
from caramel.sources.images.judges import ReadingJudge
from caramel.sources.world.drawing import CELL, encode_png
from caramel.sources.world.objects import BORDER, ObjectImages
from caramel.sources.world.scenes import Scene
from caramel.training.recipes.text_to_image import FIXED, train_pixart
from caramel.utils.typed_settings import build_settings

PER_SUBTYPE = 90
ROWS = 2048  # size of the square product that measures the machine's rate


def measure_cpu_time(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call over all threads."""
    before = time.process_time()
    work()
    return time.process_time() - before


def measure_flop_rate(precision: str) -> float:
    """Return the floating-point operations per CPU second of a large matrix product."""
    a = torch.randn(ROWS, ROWS)
    with torch.no_grad(), use_precision("cpu", precision):
        product = partial(torch.nn.functional.linear, a, a)
        product()
        return 2 * ROWS**3 * 5 / measure_cpu_time(lambda: [product() for _ in range(5)])


def count_flops(work: Callable[[], object]) -> float:
    """Return the floating-point operations of a call."""
    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())


def load_prompts(data: Path) -> list[dict[str, str]]:
    """Return prompts for negatives of a finished run that may be drawn."""
    pairs = read_table(PAIRS, data / "refine/pairs.parquet")
    negatives = read_table(NEGATIVES, data / "refine/negatives.parquet")
    chosen = choose_negatives(negatives, pairs, per_subtype={"test": PER_SUBTYPE}, seed=99)
    source = read_table(PAIRS, data / "scenes/pairs.parquet")
    return build_prompts(chosen, pairs, source, method="edit", prompt_suffix="", seed=99)


def measure_faithfulness(
    folder: Path, rows: Sequence[dict[str, str]], captions: Sequence[str], sampling: Sampling
) -> str:
    """Draw a candidate for each row; print how many were faithful, and the cost."""
    torch.set_num_threads(1)
    pipeline, options = load_pipeline(folder, "cpu")
    scenes = [(Scene.from_json(row["scene"]), Scene.from_json(row["planned"])) for row in rows]
    seeds = [derive_candidate_seed(7, row["negative_id"], 0) for row in rows]
    triples = [(*pair, seed) for pair, seed in zip(scenes, seeds, strict=True)]
    image_pairs: list[Any] = []
    spent = measure_cpu_time(
        lambda: image_pairs.extend(
            draw_pairs(pipeline, options, triples, suffix="", batch_size=256, sampling=sampling)
        )
    )
    products = count_flops(
        lambda: list(
            draw_pairs(pipeline, options, triples[:32], suffix="", batch_size=256, sampling=sampling)
        )
    )
    products *= len(rows) / 32
    judge = ReadingJudge(allow_unmentioned_objects=False)
    positive = judge.score_match([encode_png(pair[0]) for pair in image_pairs], captions)
    negative = judge.score_match(
        [encode_png(pair[1]) for pair in image_pairs], [row["caption"] for row in rows]
    )
    faithful = np.minimum(positive, negative)
    return (
        f"{asdict(sampling)}: faithful {faithful.mean():.3f} of {len(rows)} (positive {positive.mean():.3f}, negative {negative.mean():.3f}), "
        f"{1000 * spent / len(rows):.1f} ms a pair, least {1000 * products / len(rows) / measure_flop_rate('fp32'):.1f} ms"
    )


@click.command(help=__doc__)
@click.argument("changes", nargs=-1)
@click.option("--data", type=Path, default=Path("data"), show_default=True)
@click.option("--guidance", type=float, multiple=True, default=(1.5, 2.0, 3.0), show_default=True)
@click.option("--steps", type=int, multiple=True, default=(6,), show_default=True)
@click.option("--objects", type=int, default=None, help="Images to train on. Default: the number of scenes.")
def main(
    changes: tuple[str, ...],
    data: Path,
    guidance: tuple[float, ...],
    steps: tuple[int, ...],
    objects: int | None,
) -> None:
    """Run the measurement; see the module's docstring."""
    config = load_config(Path("params.yaml"))
    section = config.train_generator.model_dump(exclude={"backend", "pretrained"})
    section |= resolve_compute(config.run.device, config.run.precision)
    section |= {"image_size": CELL, "border": BORDER, "num_workers": 0}
    section |= {key: json.loads(value) for key, _, value in (text.partition("=") for text in changes)}
    pictures = ObjectImages(objects or config.scenes.train, seed=section["seed"])
    pairs = read_table(PAIRS, data / "scenes/pairs.parquet")
    texts = [
        *pairs["caption"],
        *read_table(NEGATIVES, data / "refine/negatives.parquet")["negative_caption"],
    ]
    print(changes, section["precision"], flush=True)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        out.mkdir()
        table = pictures.build_pairs()

        def train_once(scratch: str, **more: Any) -> None:
            train_pixart(
                table,
                pictures,
                chain(texts),
                pretrained=None,
                settings=build_settings(GeneratorConfig, {**section, **FIXED, **more}),
                scratch=Path(folder, scratch),
                out=out,
            )

        products = count_flops(partial(train_once, "few", steps=3)) / 3 * section["steps"]
        start = measure_cpu_time(partial(train_once, "start", steps=1))
        spent = measure_cpu_time(partial(train_once, "whole"))
        print(
            f"training: {spent:.1f} CPU seconds, {start:.1f} before the first step; lower bound "
            f"{products / measure_flop_rate(section['precision']):.1f} s ({products / 1e12:.2f} T operations)",
            flush=True,
        )
        rows = load_prompts(data)
        captions = pairs.set_index("pair_id")["caption"]
        refined = read_table(NEGATIVES, data / "refine/negatives.parquet").set_index("negative_id")
        positives = captions[refined.loc[[row["negative_id"] for row in rows], "pair_id"]].tolist()
        for g in guidance:
            for s in steps:
                print(measure_faithfulness(out, rows, positives, Sampling(g, s)), flush=True)


if __name__ == "__main__":
    main()
