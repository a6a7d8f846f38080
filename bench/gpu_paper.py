"""Train ViT-B/32 with random weights as profile ``paper`` does, on one GPU: `python bench/gpu_paper.py`.

- caramel: each variant by ``contrastive.train_clip``, with its batch size of ``params/paper.yaml`` and in its
  number of rows encoded at a time.
- open_clip: the loop of the installed open_clip (``open_clip_train``) on the rows of ``infonce``, as it is and with
  ``torch.compile``, from batches prepared in pinned memory.

Images are 3 × 3 coloured fields, captions name the colours, and a negative has one other colour, so that there is
something to learn. Weights are random, so the learning rate is 1e-4 in place of the published ones. Prints samples
per second, time of the first step (which compiles), peak memory and losses. Nothing is downloaded.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import click
import numpy as np
import pandas as pd
import torch
from evaluation import save_random_checkpoint
from gpu import SIZE, GpuMonitor, InMemoryImages, Loader, build_fit_settings, print_table
from gpu import WARM as LOADED_WARM

from caramel.config.schema import read_mapping
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.models.open_clip.config import Clip
from caramel.registry import METHODS
from caramel.runtime.environment import be_quiet
from caramel.training.data.batch import count_rows_per_step
from caramel.training.data.examples import Examples, Negatives
from caramel.training.data.tokens import tokenize_texts
from caramel.training.loop import contrastive
from caramel.training.loop.loop import build_param_groups

ROWS = 4000  # different images
COLORS = {
    "red": (220, 40, 40), "green": (40, 170, 60), "blue": (40, 70, 220), "yellow": (240, 220, 60),
    "white": (245, 245, 245), "black": (20, 20, 20), "orange": (240, 140, 30), "purple": (140, 50, 170),
}  # fmt: skip
PAPER = Path(__file__).parents[1] / "params" / "paper.yaml"
WARM = 20  # steps that are not timed
WINDOW = 10  # steps
LEAST = 100  # steps; with fewer, most windows would have the writing of one of the four checkpoints in them


def draw_images(fields: np.ndarray, rng: np.random.Generator) -> InMemoryImages:
    """Return images of 3 × 3 fields (n, 9) of colours, with noise, as (n, 3, 224, 224)."""
    palette = np.array([*COLORS.values()], np.int16)
    small = palette[fields].reshape(-1, 3, 3, 3).transpose(0, 3, 1, 2)
    index = np.arange(SIZE) * 3 // SIZE
    out = np.empty((len(fields), 3, SIZE, SIZE), np.uint8)
    noise = rng.integers(-20, 21, (50, 3, SIZE, SIZE), dtype=np.int16)
    for row, image in enumerate(small):
        out[row] = np.clip(image[:, index][:, :, index] + noise[row % len(noise)], 0, 255)
    return InMemoryImages(out)


def write_captions(fields: np.ndarray) -> list[str]:
    """Return the captions of fields (n, 9)."""
    names = np.array([*COLORS])
    return [f"a wall of tiles in {' '.join(row)}" for row in names[fields]]


def build_rows(clip: Clip, variant: str, seed: int = 0) -> Examples:
    """Return rows for a variant: a caption, and as many negatives and images of them as the method uses."""
    method, rng = METHODS[variant], np.random.default_rng(seed)
    fields = rng.integers(0, len(COLORS), (ROWS, 9))
    rows, count = np.arange(ROWS), method.negatives
    images: Any = draw_images(fields, rng)
    negatives = None
    if count:
        others = np.repeat(fields, count, axis=0)
        places = rng.integers(0, 9, len(others))
        others[np.arange(len(others)), places] += rng.integers(1, len(COLORS), len(others))
        others %= len(COLORS)
        drawn: Any = draw_images(others, rng) if method.images else None
        flat = np.arange(len(others))
        negatives = Negatives(
            tokenize_texts(clip.tokenize, write_captions(others)),
            flat % 7,
            flat.reshape(ROWS, count),
            drawn,
            ROWS + flat,
        )
    return Examples(
        method, rows.astype(object), images, rows, tokenize_texts(clip.tokenize, write_captions(fields)), negatives
    )  # fmt: skip


def read_variant(variant: str, micro_batch_size: int | None = None) -> dict[str, Any]:
    """Return batch size and rows encoded at a time of a variant in profile ``paper``; a given number replaces its own."""
    finetune = read_mapping(PAPER, "Run it from a checkout of caramel.")["finetune"]
    given = {"batch_size": finetune["batch_size"], **finetune["overrides"].get(variant, {})}
    at_once = micro_batch_size or given.get("micro_batch_size")
    return {"batch_size": given["batch_size"], "micro_batch_size": at_once}


def summarise(name: str, rows: int, times: list[float], losses: list[float], gb: float) -> list[Any]:
    """Return a row of the table from the times of the steps and the losses.

    A step's time is the median over windows of steps, so that the writing of a checkpoint does not count.
    """
    stamps = np.array(times[WARM:])
    seconds = float(np.median((stamps[WINDOW:] - stamps[:-WINDOW]) / WINDOW))
    means = " ".join(f"{part.mean():.3f}" for part in np.array_split(np.array(losses), 4))
    return [name, rows, len(times), rows / seconds, 1000 * seconds, times[1] - times[0], gb, means]


def train_caramel(
    folder: str, variant: str, steps: int, precision: str, micro_batch_size: int | None
) -> list[Any]:
    """Return the table's row of a variant."""
    clip, times = load_checkpoint(folder), []
    examples, given = build_rows(clip, variant), read_variant(variant, micro_batch_size)
    rows_of = contrastive.draw_step_rows  # type: ignore[attr-defined]

    def record_time(*args: Any) -> Any:
        times.append(time.perf_counter())
        return rows_of(*args)

    settings = build_fit_settings(
        given["batch_size"], steps, precision, steps // 4, micro_batch_size=given["micro_batch_size"]
    )
    with (
        tempfile.TemporaryDirectory() as scratch,
        mock.patch.object(contrastive, "draw_step_rows", record_time),
        GpuMonitor() as watch,
    ):
        curve = contrastive.train_clip(clip, examples, [], settings, scratch=Path(scratch), title=variant)
    rows = count_rows_per_step(examples.method, given["batch_size"], bool(examples.method.neighbours))
    losses = [value for _, metric, value in curve if metric == "loss"]
    at_once = f", {given['micro_batch_size']} at a time" if given["micro_batch_size"] else ""
    return summarise(f"caramel {variant} {precision}{at_once}", rows, times, losses, watch.gb)


def train_open_clip(folder: str, steps: int, compiled: bool) -> list[Any]:
    """Return the table's row of open_clip's loop."""
    from open_clip import ClipLoss
    from open_clip_train.scheduler import cosine_lr
    from open_clip_train.train import train_one_epoch

    clip = load_checkpoint(folder)
    batch_size = read_variant("infonce")["batch_size"]
    model = clip.model.to("cuda")
    model.output_dict = True
    optimizer = torch.optim.AdamW(
        build_param_groups([model], 0.1), lr=1e-4, betas=(0.9, 0.98), eps=1e-6, fused=True
    )
    loader = Loader(clip, build_rows(clip, "infonce"), batch_size, steps - LOADED_WARM)
    losses: list[float] = []

    def record_loss(name: str, value: float, step: int) -> None:
        if name == "train/loss":
            losses.append(value)

    args = SimpleNamespace(
        device="cuda", precision="amp_bf16", distill=False, accum_freq=1, skip_scheduler=False, grad_clip_norm=1.0,
        horovod=False, log_every_n_steps=max(1, steps // 40), batch_size=batch_size, world_size=1, rank=0, local_rank=0,
        wandb=False, log_local=False,
    )  # fmt: skip
    data = {"train": SimpleNamespace(dataloader=loader, set_epoch=lambda epoch: None)}
    run = torch.compile(model) if compiled else model
    scheduler = cosine_lr(optimizer, 1e-4, 10, steps)
    with GpuMonitor() as watch:
        writer = SimpleNamespace(add_scalar=record_loss)
        train_one_epoch(run, data, ClipLoss(), 0, optimizer, None, scheduler, None, args, tb_writer=writer)
        torch.cuda.synchronize()
    times = [*loader.times, time.perf_counter()]
    name = f"open_clip infonce bf16{', compiled' if compiled else ''}"
    return summarise(name, batch_size, times, losses, watch.gb)


@click.command(epilog="Example: python bench/gpu_paper.py --runs open_clip,compiled,infonce --steps 1000")
@click.option(
    "--runs",
    default="infonce,open_clip,compiled,trohn_text,trohn_img,negclip",
    show_default=True,
    help="Variants of profile paper, and open_clip or compiled for open_clip's loop.",
)
@click.option("--steps", default=1000, show_default=True, help=f"Steps of each, at least {LEAST}.")
@click.option("--precision", default="bf16", show_default=True, help="Precision of caramel's trainings.")
@click.option(
    "--micro-batch-size",
    type=click.IntRange(1),
    help="Rows encoded at a time.  [default: those of the profile]",
)
@click.option(
    "--model", default="ViT-B-32", show_default=True, help="open_clip architecture with 224 pixels."
)
@click.option("--work", default="work/bench-gpu", type=click.Path(path_type=Path), help="Scratch folder.")
def main(runs: str, steps: int, precision: str, micro_batch_size: int | None, model: str, work: Path) -> None:
    """Measure trainings of profile paper on this machine's GPU."""
    be_quiet()
    if not torch.cuda.is_available():
        raise click.ClickException("torch finds no GPU on this machine: nothing was measured.")
    if steps < LEAST:
        raise click.BadParameter(f"{steps} is less than {LEAST}.", param_hint="--steps")
    click.echo(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {model}")
    folder = save_random_checkpoint(work / "model", model).partition("open_clip:")[2]
    results = []
    for name in runs.split(","):
        if name in ("open_clip", "compiled"):
            results.append(train_open_clip(folder, steps, name == "compiled"))
        else:
            results.append(train_caramel(folder, name, steps, precision, micro_batch_size))
        click.echo(f"{results[-1]}")  # kept if a later one is interrupted
    columns = ["training", "rows", "steps", "rows/s", "ms/step", "first step s", "peak GB", "losses"]
    print_table(
        "Losses: mean of the first, sixth, eleventh and last twentieth",
        pd.DataFrame(results, columns=columns),
    )


if __name__ == "__main__":
    main()
