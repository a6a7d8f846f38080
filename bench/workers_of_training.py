"""Compare training by one process, by two, and by two with a kill: `python bench/workers_of_training.py`.

A small CLIP learns pairs of the embedded world from scratch, with their hard negatives (`--method`). The
image `work/workers_of_training.png` shows the losses of one process, of two, and of two whose second process
is killed by SIGKILL after half of the steps. Below them it shows the differences from one process. Rounding
errors grow with the steps. A fourth run measures them: one process that encodes its batches in four parts,
which changes only the order of a sum in the gradient. Printed are the largest differences of the first steps
and of all, whether the killed run ends with the same weights as the undisturbed one bit for bit, and the
seconds of each.
"""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from caramel.interfaces.trainer import Curve
from caramel.interfaces.training_settings import ALL_WEIGHTS, ContrastiveConfig
from caramel.models.open_clip.checkpoints import build_model
from caramel.models.open_clip.config import Clip, assemble_clip
from caramel.models.open_clip.tokenizer import learn_merges
from caramel.registry import METHODS
from caramel.runtime.environment import be_quiet
from caramel.sources.captions.scene_writer import world_negatives
from caramel.sources.world.sampling import sample_pairs
from caramel.training.data.examples import load_examples
from caramel.training.distributed import DistContext, Tell, launch
from caramel.training.loop.contrastive import train_clip
from caramel.training.recipes.pretrain import FIXED
from caramel.utils.typed_settings import build_settings

EVERY = 5  # steps per point of the curves
PAIRS = 2000


def build_world() -> tuple[pd.DataFrame, dict[str, bytes]]:
    """Return training rows with their negatives, and their images; negatives have no images."""
    images: dict[str, bytes] = {}

    def save_image(image_id: str, data: bytes, path: str, **known: Any) -> None:
        images[image_id] = data

    counts = {"train": PAIRS, "val": 1, "test": 1}
    source = sample_pairs(
        counts=counts,
        num_objects=(2,),
        allow_unmentioned_objects=False,
        unseen_frac=0.125,
        typical_color_prob=0.5,
        absolute_positions=0.5,
        group_size=8,
        seed=1,
        put=save_image,
    )
    written = world_negatives(
        source.pairs, data_dir="", seed=2, max_attempts=20, allow_unmentioned_objects=False
    )
    columns = {"negative_caption": "negative_captions", "subtype": "subtypes"}
    lists = written.negatives.groupby("pair_id")[[*columns]].agg(list).rename(columns=columns)
    rows = source.pairs[source.pairs["split"] == "train"].merge(lists, on="pair_id")
    rows = rows.merge(written.paraphrases, on="pair_id", how="left")
    none: Any = [[None] * len(row_subtypes) for row_subtypes in rows["subtypes"]]
    return rows.assign(negative_image_ids=none), images


def build_clip(texts: list[str], folder: Path) -> Clip:
    """Return the CLIP of `params/clip.json` with a vocabulary of the texts; it is the same in all processes."""
    from open_clip.tokenizer import SimpleTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = learn_merges(texts, folder / f"bpe-{os.getpid()}.txt.gz")
    model_config = json.loads(Path("params/clip.json").read_text())
    model_config["text_cfg"]["vocab_size"] = SimpleTokenizer(str(vocabulary)).vocab_size
    torch.manual_seed(0)
    config = {"model_cfg": model_config, "preprocess_cfg": {}}
    return assemble_clip(build_model(config, "params/clip.json"), config, vocabulary)


def train_and_hash(
    group: DistContext,
    tell: Tell,
    *,
    folder: str,
    method: str,
    batch_size: int,
    steps: int,
    micro_batch_size: int | None,
) -> tuple[Curve, str]:
    """Train; return the losses and a hash of the weights."""
    torch.set_num_threads(1)
    rows, images = build_world()
    clip = build_clip(rows["caption"].tolist(), Path(folder))
    examples = load_examples(clip, rows, images, method=METHODS[method])
    given = {
        **FIXED, "betas": (0.9, 0.98), "eps": 1e-6, "grad_clip_norm": 1.0, "scope": ALL_WEIGHTS, "seed": 1, "steps": steps, "batch_size": batch_size, "lr": 1e-3, "warmup_steps": 20,
        "weight_decay": 0.1, "checkpoint_every": EVERY, "device": "cpu", "precision": "fp32", "num_workers": 0,
        "micro_batch_size": micro_batch_size,
    }  # fmt: skip
    settings, title = build_settings(ContrastiveConfig, given), f"{group.size} processes"
    curve = train_clip(
        clip, examples, [], settings, scratch=Path(folder), title=title, on_points=tell, group=group
    )
    stream = io.BytesIO()
    for _, value in sorted(clip.model.state_dict().items()):
        stream.write(value.numpy().tobytes())
    return curve, hashlib.sha256(stream.getvalue()).hexdigest()


def build_killer(after: int) -> Tell:
    """Return a callback that kills the second process at a step, once."""
    killed: list[int] = []

    def kill_worker(points: Curve) -> None:
        if points[0][0] >= after and not killed:
            (member,) = (m for m in multiprocessing.active_children() if m.name == "training 1")
            assert member.pid is not None
            killed.append(member.pid)
            os.kill(member.pid, signal.SIGKILL)

    return kill_worker


def plot_losses(losses: Mapping[str, np.ndarray], steps: np.ndarray, killed: int, path: Path) -> None:
    """Draw the curves, and below them their differences from the first."""
    figure = Figure(figsize=(7, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    styles: list[dict[str, Any]] = [
        {"lw": 5, "alpha": 0.35},
        {"lw": 1, "color": "grey"},
        {"lw": 2},
        {"lw": 1.2, "ls": "--"},
    ]
    first = next(iter(losses.values()))
    for (name, values), style in zip(losses.items(), styles, strict=True):
        above.plot(steps, values, label=name, **style)
        below.plot(steps, np.abs(values - first), **style)
    for axis in (above, below):
        axis.axvline(killed, color="grey", lw=1, ls=":")
        axis.grid(alpha=0.3)
    below.set_yscale("log")
    above.set(ylabel=f"loss, mean of {EVERY} steps")
    above.legend()
    below.set(
        xlabel=f"step; dotted: the second process is killed after step {killed}",
        ylabel="difference from one process",
    )
    figure.savefig(path, dpi=120)


@click.command(epilog="Example: python bench/workers_of_training.py --method degla --steps 400")
@click.option(
    "--method", default="trohn_text", show_default=True, help="A training method without negative images."
)
@click.option("--batch", default=128, show_default=True, help="Captions per step, over all processes.")
@click.option("--steps", default=200, show_default=True, help="Steps per training.")
@click.option(
    "--out", default="work/workers_of_training.png", type=click.Path(path_type=Path), help="Image file."
)
def main(method: str, batch_size: int, steps: int, out: Path) -> None:
    """Run all trainings, print how the losses differ, and draw them."""
    be_quiet()
    rows = batch_size // (1 + METHODS[method].negatives + METHODS[method].paraphrases)
    ways: dict[str, tuple[int, int | None, Tell]] = {
        "one process": (1, None, lambda points: None),
        "one, in four parts": (1, rows // 4, lambda points: None),
        "two processes": (2, None, lambda points: None),
        "two, one of them killed": (2, None, build_killer(steps // 2)),
    }
    losses, weights = {}, {}
    for name, (processes, parts, tell) in ways.items():
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            given = {
                "folder": folder,
                "method": method,
                "batch_size": batch_size,
                "steps": steps,
                "micro_batch_size": parts,
            }
            curve, weights[name] = launch(train_and_hash, given, processes, tell)
        losses[name] = np.array([value for _, _, value in curve])
        gaps = np.abs(losses[name] - losses["one process"])
        click.echo(
            f"{name}: {time.perf_counter() - began:.0f} s, last loss {losses[name][-1]:.6f}, largest difference {gaps.max():.1e}, "
            f"of the first {10 * EVERY} steps {gaps[:10].max():.1e}"
        )
    same = weights["two processes"] == weights["two, one of them killed"]
    click.echo(
        f"weights of two processes, undisturbed and killed: {'equal bit for bit' if same else 'NOT EQUAL'}"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    plot_losses(losses, np.array([step for step, _, _ in curve]), steps // 2, out)
    click.echo(f"drawn: {out}")


if __name__ == "__main__":
    main()
