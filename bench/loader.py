"""Measure speed and memory of batch loading in training: `python bench/loader.py [--images 100000]`.

JPEGs of 256 pixels, about 23 kB each, lie in the shards of the image store, with five captions each. They are
read at random, decoded and resized to the 224 pixels of a CLIP in one of these ways:

- by the training process (0 workers: in its threads);
- by one or two worker processes;
- decoded in memory beforehand (at most 10,000 images; a thousand take 150 MB).

Each way runs in its own process. Printed are

- samples per second of wall time and of CPU time, for batches alone;
- memory of the driver and its workers: private to each, and resident in all with shared pages counted once;
- samples per second of a training of a small CLIP (`train_clip`), and the share of its time spent waiting for
  batches.

It also checks that all ways give equal weights. It takes five minutes on two cores for 10,000 images.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import psutil
import torch
from image_store import draw_jpegs, iter_files, write_store

from caramel.interfaces.training_settings import ALL_WEIGHTS, ContrastiveConfig
from caramel.io.image_store import ImageStore
from caramel.models.open_clip.checkpoints import build_model
from caramel.models.open_clip.config import Clip, assemble_clip
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.training.data import loader
from caramel.training.data.batch import assemble_batch
from caramel.training.data.examples import Examples, load_examples
from caramel.training.data.loader import Loader, draw_batch_rows
from caramel.training.loop.contrastive import train_clip
from caramel.training.methods.infonce import METHOD as INFONCE
from caramel.training.recipes.pretrain import FIXED
from caramel.utils.typed_settings import build_settings

CAPTIONS = 5  # per image
MOST_HELD = 10_000  # most images to hold decoded in memory
WARM = 4  # warm-up batches, not counted
CONFIG: dict[str, Any] = {
    "embed_dim": 128,
    "quick_gelu": False,
    "vision_cfg": {"image_size": 224, "layers": 3, "width": 128, "head_width": 32, "patch_size": 32},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 128, "heads": 4, "layers": 2},
}
COLUMNS = {
    "batch_s": "batches: samples/s",
    "batch_cpu": "per CPU-s",
    "driver": "driver MB",
    "worker": "worker MB",
    "all": "all MB",
    "fit_s": "training: samples/s",
    "waiting": "waiting share",
    "weights": "weights",
}


def build_small_clip() -> Clip:
    """Return an untrained CLIP with 224 pixels and 77 tokens, like ViT-B/32."""
    torch.manual_seed(0)
    config = {"model_cfg": CONFIG, "preprocess_cfg": {}}
    return assemble_clip(build_model(config, "benchmark"), config, None)


def generate_pairs(images: int) -> pd.DataFrame:
    """Return five captions of each image."""
    words = np.array(
        ["the", "large", "red", "blue", "dog", "cat", "ball", "left", "of", "on", "under", "table"]
    )
    text = words[np.random.default_rng(2).integers(0, len(words), (images * CAPTIONS, 11))]
    names = np.repeat([f"{n:08}" for n in range(images)], CAPTIONS)
    captions = [" ".join(row) for row in text]
    return pd.DataFrame(
        {"pair_id": np.arange(len(names)).astype(str), "image_id": names, "caption": captions}
    )


def measure_cpu_time() -> float:
    """Return the CPU seconds of this process and its children, including ended ones."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    times = [member.cpu_times() for member in processes]
    ended: float = times[0].children_user + times[0].children_system
    running: float = sum(t.user + t.system for t in times)
    return ended + running


def measure_memory() -> dict[str, float]:
    """Return the memory of this process and of its children, in MB."""
    driver, *others = [p.memory_full_info() for p in (psutil.Process(), *psutil.Process().children())]
    return {
        "driver": driver.uss / 1e6,
        "worker": max((other.uss / 1e6 for other in others), default=np.nan),
        "all": sum(member.pss / 1e6 for member in (driver, *others)),
    }


def measure_batches(
    clip: Clip, examples: Examples, workers: int, batch_size: int, steps: int
) -> dict[str, float]:
    """Measure the building of batches without training."""
    steps += WARM

    def build_batch(step: int) -> Any:
        return assemble_batch(clip, examples, draw_batch_rows(1, step, len(examples), batch_size), 1, step)

    with Loader(build_batch, steps, workers) as load:
        for step in range(WARM):
            load(step)
        clock, used = time.perf_counter(), measure_cpu_time()
        for step in range(WARM, steps):
            load(step)
        seconds, used = time.perf_counter() - clock, measure_cpu_time() - used
        samples = batch_size * (steps - WARM)
        return {"batch_s": samples / seconds, "batch_cpu": samples / used, **measure_memory()}


def measure_training(
    clip: Clip, examples: Examples, workers: int, batch_size: int, steps: int
) -> dict[str, Any]:
    """Measure a training."""
    points: list[tuple[int, str, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        clock = time.perf_counter()
        given = {
            **FIXED, "betas": (0.9, 0.98), "eps": 1e-6, "grad_clip_norm": 1.0, "scope": ALL_WEIGHTS, "seed": 1, "steps": steps, "batch_size": batch_size, "lr": 1e-3, "warmup_steps": 2,
            "weight_decay": 0.1, "checkpoint_every": steps, "device": "cpu", "precision": "fp32", "num_workers": workers,
        }  # fmt: skip
        settings = build_settings(ContrastiveConfig, given)
        train_clip(
            clip, examples, [], settings, scratch=Path(scratch), title="loader", on_points=points.extend
        )
        seconds = time.perf_counter() - clock
    digest = hashlib.sha256(b"".join(v.numpy().tobytes() for v in clip.model.state_dict().values()))
    waiting = {name: value for _, name, value in points}["waiting_share"]
    return {"fit_s": batch_size * steps / seconds, "waiting": waiting, "weights": digest.hexdigest()[:8]}


def _measure_loader(
    folder: Path,
    images: int,
    workers: int | None,
    batch_size: int,
    steps: int,
    answer: Callable[[object], None],
) -> None:
    torch.set_num_threads(1)
    index = folder / "images.parquet"
    stored = ImageStore(index, read_table(IMAGES, index))
    loader.HELD = 2**60 if workers is None else 0
    clip, rows = build_small_clip(), generate_pairs(images)
    start = time.perf_counter()
    examples = load_examples(clip, rows, stored, method=INFONCE)
    result: dict[str, Any] = {"start_s": time.perf_counter() - start}
    result |= measure_batches(clip, examples, workers or 0, batch_size, steps)
    answer(result | measure_training(clip, examples, workers or 0, batch_size, steps))


def measure_in_process(*args: Any) -> dict[str, Any]:
    """Return the measurements of one way, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_measure_loader, args=(*args, send.send))
    child.start()
    result: dict[str, Any] = receive.recv()
    child.join()
    return result


@click.command(epilog="Example: python bench/loader.py --images 100000 --work /data/tmp")
@click.option("--images", default=10_000, show_default=True, help="JPEGs of 256 pixels.")
@click.option("--batch", default=256, show_default=True, help="Samples per step.")
@click.option("--steps", default=30, show_default=True, help="Measured steps of each way.")
@click.option(
    "--work", type=click.Path(path_type=Path), help="Folder for the files, which are removed at the end."
)
def main(images: int, batch_size: int, steps: int, work: Path | None) -> None:
    """Print speed and memory of each way to build batches."""
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        write_store(Path(scratch), iter_files(draw_jpegs(), images))
        for workers in (0, 1, 2):
            rows[f"{workers} workers"] = measure_in_process(Path(scratch), images, workers, batch_size, steps)
        if images <= MOST_HELD:
            rows["in memory"] = measure_in_process(Path(scratch), images, None, batch_size, steps)
    table = pd.DataFrame(rows).T
    same = table["weights"].nunique() == 1
    formatted = table.drop(columns="weights").astype(float).round(3).rename(columns=COLUMNS)
    click.echo(
        f"{images} images, {images * CAPTIONS} captions, batches of {batch_size}\n{formatted.to_string()}"
    )
    click.echo(f"weights after {steps} steps: {'equal' if same else 'NOT EQUAL'} in all ways")


if __name__ == "__main__":
    main()
