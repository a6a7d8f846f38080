"""Measure speed, memory and reproducibility on one GPU: `python bench/gpu.py`.

- train: contrastive training of a model with random weights on random images, by `contrastive.train_clip` and
  by open_clip's own loop (`open_clip_train`) in turn. The latter gets batches prepared in pinned memory.
- score: `caramel eval` on drawn images and captions, in fp32 and bf16. The first ones are also scored on the
  CPU, to compare scores and verdicts.
- repeat: the same training twice, and once killed and resumed: are the weights equal bit for bit?

Prints a table for each part. Nothing is downloaded. On one H100 everything takes about six minutes.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import click
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from evaluation import save_random_checkpoint, score_batched, write_images

from caramel.benchmarks.tasks import build_comparisons
from caramel.evaluation.scores import encoding
from caramel.interfaces.benchmark import Comparisons, ImageFile
from caramel.interfaces.training_settings import ALL_WEIGHTS, ContrastiveConfig
from caramel.models.open_clip import encoder
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.models.open_clip.config import Clip
from caramel.runtime.environment import be_quiet
from caramel.training.data.examples import Examples
from caramel.training.data.tokens import tokenize_texts
from caramel.training.loop import contrastive
from caramel.training.methods.infonce import METHOD as INFONCE
from caramel.training.recipes.pretrain import FIXED
from caramel.utils.typed_settings import build_settings

SIZE = 224  # pixels
WARM = 10  # warm-up steps, not counted
POOL = 4000  # training images
WORDS = (
    "a the one two small large red blue green old young wooden shiny dog cat horse ball box table chair car tree house "
    "street field water window man woman child hat shirt left right of on under above behind beside holding riding with"
)


class Span(NamedTuple):
    """A time span on ``time.perf_counter``."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Return its length in seconds."""
        return self.end - self.start


class GpuMonitor:
    """Records nvidia-smi's and torch's view of the GPU while open."""

    def __enter__(self) -> GpuMonitor:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        number = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "100"]
        self._smi = subprocess.Popen([*query, "-i", number], stdout=subprocess.PIPE, text=True)
        self._samples: list[tuple[float, int]] = []
        self._reader = threading.Thread(target=self._read_utilization)
        self._reader.start()
        return self

    def _read_utilization(self) -> None:
        assert self._smi.stdout is not None
        for line in self._smi.stdout:
            if line.strip().isdigit():
                self._samples.append((time.perf_counter(), int(line)))

    def __exit__(self, *error: object) -> None:
        self._smi.terminate()
        self._reader.join()
        self._smi.wait()
        self.gb = torch.cuda.max_memory_allocated() / 2**30

    def compute_utilization(self, span: Span) -> float:
        """Return the mean GPU utilization in per cent."""
        shares = [share for at, share in self._samples if span.start <= at <= span.end]
        return float(np.mean(shares)) if shares else float("nan")


def generate_captions(count: int, seed: int, words: tuple[int, int] = (8, 21)) -> list[str]:
    """Return a number of different captions from some words."""
    rng = np.random.default_rng(seed)
    lengths, known = rng.integers(*words, count), WORDS.split()
    return [f"{' '.join(rng.choice(known, n))} {i}" for i, n in enumerate(lengths)]


class InMemoryImages:
    """Images in memory, with the interface of ``loader.ImageDataset``."""

    held = True

    def __init__(self, pictures: npt.NDArray[np.uint8]) -> None:
        self._pictures = pictures

    def __getitem__(self, rows: Any) -> npt.NDArray[np.uint8]:
        images: npt.NDArray[np.uint8] = self._pictures[rows]
        return images

    def load_for_step(self, rows: Any, seed: int, step: int) -> npt.NDArray[np.uint8]:
        """Return the images of a step."""
        return self[rows]


def build_examples(clip: Clip, words: tuple[int, int]) -> Examples:
    """Return random images with captions, in memory."""
    pictures = np.random.default_rng(0).integers(0, 256, (POOL, 3, SIZE, SIZE), dtype=np.uint8)
    texts, rows = tokenize_texts(clip.tokenize, generate_captions(POOL, 1, words)), np.arange(POOL)
    held: Any = InMemoryImages(pictures)
    return Examples(INFONCE, rows.astype(object), held, rows, texts)


def build_fit_settings(
    batch_size: int,
    steps: int,
    precision: str = "bf16",
    checkpoint_every: int = 10**6,
    micro_batch_size: int | None = None,
) -> ContrastiveConfig:
    """Return the settings of a training on the GPU."""
    given = {
        **FIXED, "betas": (0.9, 0.98), "eps": 1e-6, "grad_clip_norm": 1.0, "micro_batch_size": micro_batch_size, "scope": ALL_WEIGHTS, "seed": 1, "steps": steps, "batch_size": batch_size, "lr": 1e-4, "warmup_steps": 10,
        "weight_decay": 0.1, "checkpoint_every": checkpoint_every, "device": "cuda", "precision": precision, "num_workers": 0,
    }  # fmt: skip
    return build_settings(ContrastiveConfig, given)


def time_caramel(clip: Clip, rows: Examples, batch_size: int, steps: int) -> Span:
    """Return the time of all but the warm-up steps of ``contrastive.train_clip``, without its final writes."""
    times: list[float] = []
    rows_of = contrastive.draw_step_rows  # type: ignore[attr-defined]

    def record_time(*args: Any) -> Any:
        times.append(time.perf_counter())
        return rows_of(*args)

    with (
        tempfile.TemporaryDirectory() as scratch,
        mock.patch.object(contrastive, "draw_step_rows", record_time),
    ):
        settings = build_fit_settings(batch_size, WARM + steps)
        contrastive.train_clip(clip, rows, [], settings, scratch=Path(scratch), title="gpu")
    return Span(times[WARM], times[-1])


class Loader:
    """Data loader for open_clip's loop: normalised batches in pinned memory; records when each was taken."""

    def __init__(self, clip: Clip, rows: Examples, batch_size: int, steps: int) -> None:
        self.num_batches, self.num_samples = WARM + steps, batch_size * (WARM + steps)
        batch_indices = [
            np.arange(start, start + batch_size) for start in range(0, POOL - batch_size, batch_size)
        ]
        pixels = [
            encoder.normalise_pixels(clip, torch.from_numpy(rows.images[part])).pin_memory()
            for part in batch_indices
        ]
        tokens = [torch.from_numpy(rows.texts[part]).long().pin_memory() for part in batch_indices]
        self._batches = list(zip(pixels, tokens, strict=True))
        self.times: list[float] = []

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for number, batch in enumerate(itertools.islice(itertools.cycle(self._batches), self.num_batches)):
            if number == WARM + 1:
                torch.cuda.synchronize()
            self.times.append(time.perf_counter())
            yield batch


def time_open_clip(clip: Clip, rows: Examples, batch_size: int, steps: int) -> Span:
    """Return the time of all but the warm-up steps of open_clip's own training loop, with the same optimizer."""
    from open_clip import ClipLoss
    from open_clip_train.train import train_one_epoch

    from caramel.training.loop.loop import build_param_groups

    model = clip.model.to("cuda")
    model.output_dict = True
    optimizer = torch.optim.AdamW(build_param_groups([model], 0.1), lr=1e-4, betas=(0.9, 0.98), eps=1e-6)
    loader = Loader(clip, rows, batch_size, steps)
    data = {"train": SimpleNamespace(dataloader=loader, set_epoch=lambda epoch: None)}
    args = SimpleNamespace(
        device="cuda", precision="amp_bf16", distill=False, accum_freq=1, skip_scheduler=True, grad_clip_norm=1.0,
        horovod=False, log_every_n_steps=10**9, batch_size=batch_size, world_size=1, rank=0, local_rank=0, wandb=False,
        log_local=False,
    )  # fmt: skip
    train_one_epoch(model, data, ClipLoss(), 0, optimizer, None, None, None, args)
    torch.cuda.synchronize()
    return Span(loader.times[WARM + 1], time.perf_counter())


def train_part(spec: str, batch_size: int, steps: int, turns: int) -> pd.DataFrame:
    """Return a row for each turn of both loops, with captions of usual length and with captions that fill the context."""
    folder, results = spec.partition("open_clip:")[2], []
    for words, length in (((8, 21), "8-20 words"), ((90, 91), "77 tokens")):
        rows = build_examples(load_checkpoint(folder), words)
        for turn, (name, loop) in itertools.product(
            range(turns), (("caramel", time_caramel), ("open_clip", time_open_clip))
        ):
            clip = load_checkpoint(folder)
            with GpuMonitor() as watch:
                span = loop(clip, rows, batch_size, steps)
            seconds = span.seconds / (steps - 1)
            results.append(
                [
                    name,
                    length,
                    turn + 1,
                    batch_size / seconds,
                    1000 * seconds,
                    watch.compute_utilization(span),
                    watch.gb,
                ]
            )
    columns = ["loop", "captions", "turn", "samples/s", "ms/step", "busy %", "peak GB"]
    return pd.DataFrame(results, columns=columns)


@contextmanager
def time_calls(module: Any, name: str) -> Iterator[list[Span]]:
    """Give a list that receives the time of each call of a module's function."""
    spans: list[Span] = []
    function = getattr(module, name)

    def record_call(*args: Any, **named: Any) -> Any:
        start = time.perf_counter()
        out = function(*args, **named)
        spans.append(Span(start, time.perf_counter()))
        return out

    with mock.patch.object(module, name, record_call):
        yield spans


def draw_task(count: int, folder: Path) -> Comparisons:
    """Return a benchmark of drawn images; in every hundredth row both captions have equal tokens."""
    names = [f"{i:06}.jpg" for i in range(count)]
    write_images(names, folder, (SIZE, SIZE))
    texts = generate_captions(count, 2)
    rows: list[dict[str, object]] = [
        {
            "instance_id": name,
            "image_id": name,
            "subsets": ["all"],
            "image": i,
            "caption": texts[i],
            "negative_caption": texts[i].upper() if i % 100 == 0 else texts[i - 1],
        }
        for i, name in enumerate(names)
    ]
    return build_comparisons(rows, [ImageFile(str(folder / name)) for name in names])


def take_first(task: Comparisons, count: int) -> Comparisons:
    """Return the first instances of a task."""
    return Comparisons(task.rows.head(count), task.images[:count])


def score_part(spec: str, task: Comparisons, checked: int, work: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the cost of scoring by precision, and how scores differ from the CPU's."""
    took, differ = [], []
    reference = score_batched(take_first(task, checked), spec, work / "store-cpu")[0]
    for precision in ("fp32", "bf16"):
        with (
            time_calls(encoding, "_images") as images,
            time_calls(encoder, "decode") as decode,
            GpuMonitor() as watch,
        ):
            rows, measures = score_batched(task, spec, work / f"store-{precision}", "cuda", precision)
        (span,) = images
        counts = [len(task.images), measures["texts_encoded"]]
        seconds = [measures["seconds"], measures["of_which_check_of_images"]]
        decoded = 100 * sum(part.seconds for part in decode) / span.seconds
        speed = [len(task.images) / span.seconds, decoded, watch.compute_utilization(span), watch.gb]
        took.append([precision, *counts, *seconds, *speed])
        differ.append([precision, *compare_scores(rows.head(checked), reference)])
    columns = ["precision", "images", "texts", "seconds", "check seconds"]
    columns += ["images/s", "decode %", "busy %", "peak GB"]
    names = ["precision", "instances", "largest difference", "other verdicts", "ties", "ties on cpu"]
    return pd.DataFrame(took, columns=columns), pd.DataFrame(differ, columns=names)


def compare_scores(rows: pd.DataFrame, reference: pd.DataFrame) -> list[float]:
    """Return instances, largest difference of a score, differing verdicts, and ties of both."""
    names = ["s_c0_i0", "s_c1_i0"]
    gap, right = (r["s_c0_i0"] - r["s_c1_i0"] for r in (rows, reference))
    largest = float(np.abs(rows[names].to_numpy() - reference[names].to_numpy()).max())
    other = int((np.sign(gap.to_numpy()) != np.sign(right.to_numpy())).sum())
    return [len(rows), largest, other, int((gap == 0).sum()), int((right == 0).sum())]


def hash_weights(clip: Clip) -> str:
    """Return a hash of the weights' bits."""
    digest = hashlib.sha256()
    for _, value in sorted(clip.model.state_dict().items()):
        digest.update(value.cpu().numpy().tobytes())
    return digest.hexdigest()


class KilledError(Exception):
    """Stands for a killed process."""


def train_and_hash(
    spec: str, rows: Examples, kill_at: int | None, settings: ContrastiveConfig, scratch: Path
) -> str:
    """Return the hash of what is trained; killed at a step and resumed, where one is given."""
    folder = spec.partition("open_clip:")[2]
    if kill_at is not None:
        rows_of = contrastive.draw_step_rows  # type: ignore[attr-defined]

        def kill_at_step(*args: Any) -> Any:
            if args[-1] == kill_at:
                raise KilledError
            return rows_of(*args)

        with mock.patch.object(contrastive, "draw_step_rows", kill_at_step), suppress(KilledError):
            contrastive.train_clip(load_checkpoint(folder), rows, [], settings, scratch=scratch, title="gpu")
    clip = load_checkpoint(folder)
    contrastive.train_clip(clip, rows, [], settings, scratch=scratch, title="gpu")
    return hash_weights(clip)


def repeat_part(spec: str, batch_size: int) -> pd.DataFrame:
    """Return whether trainings are equal bit for bit."""
    rows = build_examples(load_checkpoint(spec.partition("open_clip:")[2]), (8, 21))
    results = []
    for precision in ("bf16", "fp32"):
        hashes = []
        for kill_at in (None, None, 25):
            with tempfile.TemporaryDirectory() as scratch:
                settings = build_fit_settings(batch_size, 30, precision, checkpoint_every=20)
                hashes.append(train_and_hash(spec, rows, kill_at, settings, Path(scratch)))
        results.append([precision, hashes[0] == hashes[1], hashes[0] == hashes[2]])
    return pd.DataFrame(results, columns=["precision", "twice equal", "killed and resumed equal"])


def print_table(title: str, rows: pd.DataFrame) -> None:
    """Print a table."""
    click.echo(f"\n{title}\n{rows.to_string(index=False, float_format=lambda x: f'{x:.4g}')}")


PARTS = ("train", "score", "repeat")


@click.command(epilog="Example: python bench/gpu.py --parts train,score --images 5000")
@click.option("--parts", default=",".join(PARTS), show_default=True, help="Parts to run.")
@click.option(
    "--model", default="ViT-B-32", show_default=True, help="open_clip architecture with 224 pixels."
)
@click.option("--batch", "batch_size", default=400, show_default=True, help="Batch size of the trainings.")
@click.option(
    "--steps", default=60, show_default=True, help="Steps per turn of training, after ten warm-up steps."
)
@click.option("--turns", default=2, show_default=True, help="Turns of each loop.")
@click.option("--images", default=20_000, show_default=True, help="Number of images and captions to score.")
@click.option("--checked", default=2000, show_default=True, help="How many of these to score on the CPU too.")
@click.option("--work", default="work/bench-gpu", type=click.Path(path_type=Path), help="Scratch folder.")
def main(
    parts: str, model: str, batch_size: int, steps: int, turns: int, images: int, checked: int, work: Path
) -> None:
    """Measure training and scoring on this machine's GPU."""
    be_quiet()
    if not torch.cuda.is_available():
        raise click.ClickException("torch finds no GPU on this machine: nothing was measured.")
    if unknown := sorted({*parts.split(",")} - {*PARTS}):
        raise click.BadParameter(
            f"{unknown[0]!r} is not a part. Parts: {', '.join(PARTS)}.", param_hint="--parts"
        )
    click.echo(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {model}")
    spec = save_random_checkpoint(work / "model", model)
    if "train" in parts:
        print_table(f"Training, batch {batch_size}, bf16", train_part(spec, batch_size, steps, turns))
    if "score" in parts:
        for store in work.glob("store-*"):
            shutil.rmtree(store)
        task = draw_task(images, work / "images")
        took, differ = score_part(spec, task, checked, work)
        print_table("Scoring", took)
        print_table("Scores, compared with the CPU in fp32", differ)
    if "repeat" in parts:
        print_table(f"Training again, batch {batch_size}", repeat_part(spec, batch_size))


if __name__ == "__main__":
    main()
