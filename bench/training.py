"""Compare training speed with open_clip's own program: `python bench/training.py` (`make bench-train`).

Both sides use the same model with random weights, JPEGs of 256 pixels and captions, batch size, row order,
number of steps, fp32, threads and decoding processes. One side is `python -m open_clip_train.main`
(unchanged, from the wheel of open_clip 3.3), the other `contrastive.train_clip`. They run in turn, each in
its own process. The random crops of open_clip are set to the whole image, so that both train on the same
pixels. Printed are

- samples per second of each turn after the warm-up steps, loading included, and the geometric mean of their
  ratio over the turns with its 95 % interval (t, of the logarithm);
- the largest difference of a step's loss; open_clip prints five digits;
- our time by phase: waiting for a batch, forward, backward, update; and the time to decode a batch on one core;
- our speed with decoded images in memory, as for sets below 256 MB.

For captions of usual length, caramel computes only as many tokens as they have, open_clip all 77. For
captions that fill the context, both compute equally many. Two threads or processes on one core make the
results meaningless.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import click
import numpy as np
import pandas as pd
import torch
from image_store import draw_jpegs, iter_files, write_store
from loader import CONFIG
from scipy.stats import t as student

from caramel.interfaces.training_settings import ALL_WEIGHTS, ContrastiveConfig
from caramel.io.image_store import ImageStore
from caramel.models.open_clip.checkpoints import build_model, load_checkpoint, save_checkpoint
from caramel.runtime.environment import be_quiet
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.training.data import loader
from caramel.training.data.batch import assemble_batch
from caramel.training.data.examples import Examples, load_examples
from caramel.training.loop import contrastive
from caramel.training.loop.loop import Training
from caramel.training.methods.infonce import METHOD as INFONCE
from caramel.training.recipes.pretrain import FIXED
from caramel.utils.typed_settings import build_settings

WARM = 4  # warm-up steps, not counted
SEED, LR, WARMUP, DECAY, BETAS, EPS = 0, 1e-4, 5, 0.1, (0.9, 0.98), 1e-6
LINE = re.compile(r"Data \(t\): ([\d.]+) Batch \(t\): [\d.]+, ([\d.e+]+)/s.* Loss: ([\d.]+) \(")
LENGTHS = {"usual": (8, 21), "full": (90, 91)}  # words of a caption
WORDS = ("the", "large", "red", "blue", "dog", "cat", "ball", "left", "of", "on", "under", "table")


class Plan(NamedTuple):
    """Settings of both sides: a folder with ``model``, ``pairs.tsv`` and an image store, and the training settings."""

    folder: Path
    batch_size: int
    steps: int
    num_workers: int
    threads: int

    @property
    def rows(self) -> int:
        """Return the number of rows; training runs one epoch of them."""
        return self.batch_size * self.steps


class Turn(NamedTuple):
    """Time and results of one training."""

    losses: list[float]  # of each step
    speed: float  # samples per second
    phases: dict[str, float]  # seconds per step


def write_inputs(plan: Plan, model: str, words: tuple[int, int]) -> None:
    """Write the model and the data."""
    import open_clip

    torch.manual_seed(0)
    model_config = CONFIG if model == "small" else {"quick_gelu": False, **open_clip.get_model_config(model)}
    config = {"model_cfg": model_config, "preprocess_cfg": {}}
    save_checkpoint(
        plan.folder / "model", build_model(config, model), config=config, vocabulary=None, card={}
    )
    pictures = draw_jpegs()
    write_store(plan.folder, iter_files(pictures, plan.rows))
    (plan.folder / "jpegs").mkdir()
    rng, rows = np.random.default_rng(2), []
    for name, data in iter_files(pictures, plan.rows):
        path = plan.folder / "jpegs" / f"{name}.jpg"
        path.write_bytes(data)
        rows.append((str(path), name, " ".join(rng.choice(WORDS, rng.integers(*words)))))
    table = pd.DataFrame(rows, columns=["filepath", "image_id", "title"])
    table.to_csv(plan.folder / "pairs.tsv", sep="\t", index=False)


def draw_batches(plan: Plan) -> list[list[int]]:
    """Return the rows of each step as open_clip's program draws them."""
    torch.manual_seed(SEED)
    rows: Any = range(plan.rows)
    batches: Any = torch.utils.data.DataLoader(rows, plan.batch_size, shuffle=True, drop_last=True)
    return [rows.tolist() for rows in batches]


def build_arguments(folder: Path, pairs: Path, name: str, **changes: object) -> list[str]:
    """Return the arguments of open_clip's program for a model's folder and a table of pairs."""
    how = {
        "device": "cpu", "precision": "fp32", "dataset-type": "csv", "train-data": pairs, "csv-separator": "\t",
        "csv-img-key": "filepath", "csv-caption-key": "title", "model": f"local-dir:{folder}", "lr": LR, "beta1": BETAS[0],
        "beta2": BETAS[1], "eps": EPS, "wd": DECAY, "warmup_steps": WARMUP, "grad-clip-norm": 1.0, "seed": SEED,
        "log-every-n-steps": 1, "logs": "none", "name": name, "epochs": 1, **changes,
    }  # fmt: skip
    whole = ["--aug-cfg", "scale=(1.0,1.0)"]
    return [*whole, *(part for key, value in how.items() for part in (f"--{key}", str(value)))]


def run_open_clip(plan: Plan) -> Turn:
    """Run open_clip's program."""
    given = {"batch-size": plan.batch_size, "workers": plan.num_workers}
    command = [sys.executable, "-m", "open_clip_train.main"]
    command += build_arguments(plan.folder / "model", plan.folder / "pairs.tsv", "turn", **given)
    with tempfile.TemporaryDirectory(
        dir=plan.folder
    ) as log_folder:  # for its log: it refuses to reuse a run's name
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(plan.threads)}
        done = subprocess.run(
            command, cwd=log_folder, env=environment, capture_output=True, text=True, check=False
        )
    measurements = [[float(part) for part in line] for line in LINE.findall(done.stderr)]
    if len(measurements) != plan.steps:
        raise click.ClickException(
            f"open_clip's program made {len(measurements)} steps:\n{done.stderr[-2000:]}"
        )
    waited, speeds, losses = np.array(measurements).T
    seconds = plan.batch_size / speeds[WARM:]
    waiting = (waited[-1] * plan.steps - waited[WARM - 1] * WARM) / len(seconds)
    phases = {"waiting": waiting, "all": float(seconds.mean())}
    return Turn(losses.tolist(), plan.batch_size / seconds.mean(), phases)


class PhaseTimer:
    """Adds up the seconds of each phase of the counted steps."""

    def __init__(self) -> None:
        self.steps, self.seconds = 0, defaultdict[str, float](float)
        self.ended: list[float] = []

    def time_function(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with timing."""

        def run_timed(*args: Any, **named: Any) -> Any:
            began = time.perf_counter()
            result = function(*args, **named)
            if len(self.ended) >= WARM:
                self.seconds[phase] += time.perf_counter() - began
            return result

        return run_timed


def watch_training(
    train: Callable[..., Any], clock: PhaseTimer, losses: list[torch.Tensor]
) -> Callable[..., Any]:
    """Return the training loop with timing."""

    def train_watched(training: Training[Any], **how: Any) -> Any:
        loss, after = clock.time_function("forward", training.loss), training.after_step

        def record_loss(batch: Any) -> torch.Tensor:
            value: torch.Tensor = loss(batch)
            losses.append(value.detach())
            return value

        def record_step(step: int) -> None:
            if after:
                after(step)
            clock.ended.append(time.perf_counter())

        training.loss, training.after_step = record_loss, record_step
        training.batch = clock.time_function("waiting", training.batch)
        backward = clock.time_function("backward", torch.Tensor.backward)
        update = clock.time_function("update", training.optimizer.step)
        with (
            mock.patch.object(torch.Tensor, "backward", backward),
            mock.patch.object(training.optimizer, "step", update),
        ):
            return train(training, **how)

    return train_watched


def _load_plan_examples(plan: Plan, held: bool) -> tuple[Any, Examples]:
    index, table = plan.folder / "images.parquet", pd.read_csv(plan.folder / "pairs.tsv", sep="\t")
    rows = pd.DataFrame(
        {"pair_id": table["image_id"].map(str), "image_id": table["image_id"].map("{:08}".format)}
    )
    rows["caption"] = table["title"]
    loader.HELD = 2**60 if held else 0
    clip = load_checkpoint(plan.folder / "model")
    stored = ImageStore(index, read_table(IMAGES, index))
    return clip, load_examples(clip, rows, stored, method=INFONCE)


def _run_caramel(plan: Plan, held: bool, answer: Callable[[object], None]) -> None:
    torch.set_num_threads(plan.threads)
    clip, examples = _load_plan_examples(plan, held)
    steps, clock, losses = draw_batches(plan), PhaseTimer(), list[torch.Tensor]()
    with (
        tempfile.TemporaryDirectory() as scratch,
        mock.patch.object(contrastive, "draw_step_rows", lambda *args: np.array(steps[args[-1]])),
        mock.patch.object(
            contrastive,
            "run_training",
            watch_training(contrastive.run_training, clock, losses),  # type: ignore[attr-defined]
        ),
    ):
        given = {
            **FIXED, "grad_clip_norm": 1.0, "scope": ALL_WEIGHTS, "seed": SEED, "steps": plan.steps, "batch_size": plan.batch_size, "lr": LR,
            "warmup_steps": WARMUP, "weight_decay": DECAY, "betas": BETAS, "eps": EPS, "checkpoint_every": plan.steps,
            "device": "cpu", "precision": "fp32", "num_workers": plan.num_workers,
        }  # fmt: skip
        settings = build_settings(ContrastiveConfig, given)
        contrastive.train_clip(clip, examples, [], settings, scratch=Path(scratch), title="ours")
    counted = plan.steps - WARM
    seconds = (clock.ended[-1] - clock.ended[WARM - 1]) / counted
    phases = {name: spent / counted for name, spent in clock.seconds.items()} | {"all": seconds}
    answer(Turn([float(loss) for loss in losses], plan.batch_size / seconds, phases))


def _measure_decoding(plan: Plan, answer: Callable[[object], None]) -> None:
    clip, examples = _load_plan_examples(plan, False)
    began = time.process_time()
    for step, rows in enumerate(draw_batches(plan)[:4]):
        assemble_batch(clip, examples, np.array(rows), SEED, step)
    answer((time.process_time() - began) / 4)


def run_in_process(work: Callable[..., None], *given: Any) -> Any:
    """Return the result of a function in a new process."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(*given, send.send))
    child.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        raise click.ClickException("Our training process ended without a result.") from None
    finally:
        child.join()


def compute_ratio_interval(ratios: list[float]) -> tuple[float, float, float]:
    """Return the geometric mean and the ends of its 95 % interval."""
    logs = np.log(ratios)
    half = (
        student.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
    )
    low, high = np.exp(logs.mean() - half), np.exp(logs.mean() + half)
    return float(np.exp(logs.mean())), float(low), float(high)


def compare_turns(plan: Plan, title: str, turns: int) -> None:
    """Print the results of both sides in turn."""
    click.echo(
        f"\n{title}: batch {plan.batch_size}, {plan.steps} steps, {plan.threads} threads, {plan.num_workers} decode"
    )
    ratios, differences, phases = [], [], []
    for turn in range(turns):
        other, our_turn = run_open_clip(plan), run_in_process(_run_caramel, plan, False)
        ratios.append(our_turn.speed / other.speed)
        differences.append(float(np.abs(np.subtract(our_turn.losses, other.losses)).max()))
        phases.append(
            {
                **our_turn.phases,
                "open_clip: waiting": other.phases["waiting"],
                "open_clip: all": other.phases["all"],
            }
        )
        click.echo(
            f"  turn {turn + 1}: open_clip {other.speed:.1f}/s, caramel {our_turn.speed:.1f}/s, ratio {ratios[-1]:.3f}, "
            f"largest difference of a loss {differences[-1]:.1e} (the last is {our_turn.losses[-1]:.5f})"
        )
    mean, low, high = compute_ratio_interval(ratios)
    held = run_in_process(_run_caramel, plan, True)
    click.echo(
        f"  ratio {mean:.3f}, 95 % interval [{low:.3f}, {high:.3f}]; losses differ by {max(differences):.1e}"
    )
    step = pd.DataFrame(phases).mean()
    click.echo("  ms of a step: " + ", ".join(f"{name} {1000 * value:.0f}" for name, value in step.items()))
    click.echo(f"  decoding a batch: {1000 * run_in_process(_measure_decoding, plan):.0f} ms of one core")
    click.echo(f"  images in memory: {held.speed:.1f}/s")


@click.command(epilog="Example: python bench/training.py --model ViT-B-32 --batch 32 --steps 14 --turns 3")
@click.option(
    "--model",
    default="small",
    show_default=True,
    help="small (3 layers of 128), or an open_clip architecture.",
)
@click.option(
    "--captions", default="usual", show_default=True, type=click.Choice([*LENGTHS]), help="Their length."
)
@click.option("--batch", default=64, show_default=True, help="Samples per step.")
@click.option(
    "--steps", default=40, show_default=True, help=f"Steps per training; the first {WARM} are not counted."
)
@click.option("--turns", default=5, show_default=True, help="Turns of each side.")
@click.option("--workers", default=1, show_default=True, help="Decoding processes.")
@click.option("--threads", default=1, show_default=True, help="Threads of the training process.")
@click.option(
    "--work", type=click.Path(path_type=Path), help="Folder for the files, which are removed at the end."
)
def main(
    model: str,
    captions: str,
    batch_size: int,
    steps: int,
    turns: int,
    num_workers: int,
    threads: int,
    work: Path | None,
) -> None:
    """Print speed and losses of both sides."""
    be_quiet()
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        plan = Plan(Path(scratch), batch_size, steps, num_workers, threads)
        write_inputs(plan, model, LENGTHS[captions])
        compare_turns(plan, f"{model}, {captions} captions", turns)


if __name__ == "__main__":
    main()
