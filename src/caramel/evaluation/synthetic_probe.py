"""Train synthetic-item detectors and measure how much of a benchmark's retrieval they solve without its content.

The method is BiVLC's (Miranda et al. 2024, 5.3 and E.3). A linear head on the projected, not normalised vectors
of a frozen encoder says whether an item is natural (0, the positive) or synthetic (1, the negative). There is
one head for images and one for texts.

- The heads train on the training set. The head with the best accuracy on its val rows is kept.
- The heads answer the benchmark's queries as ``external.detector_files`` says.
- As in BiVLC's code, Adam has lr 1e-3 (the paper says 1e-6) and batches of 400 rows.
- BiVLC trains one epoch on images and ten on texts, each of 237,000 rows. Here the number of steps is the same
  (``STEPS``), even if the set is small.
- No table records at which step a head was kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.benchmarks.metrics import Outcomes
from caramel.benchmarks.readers.instances import list_subsets
from caramel.evaluation.external.detector_files import IMAGE, LABEL, TEXT, compute_detector_outcomes
from caramel.evaluation.results.summary import compute_metrics
from caramel.evaluation.scores.features import encode_projected
from caramel.evaluation.synthetic_probe_data import (
    FORMS,
    NEGATIVE,
    PLANTED,
    POSITIVE,
    ProbeData,
    load_probe_data,
    plant_artifacts,
)
from caramel.interfaces.benchmark import Index
from caramel.io.image_store import list_shards
from caramel.models.devices import get_gpus_per_worker, resolve_device
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.runtime.ray.trials import tune_grid
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.evaluation import METRICS
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.utils.arrays import Floats
from caramel.utils.resampling import Bootstrap

if TYPE_CHECKING:
    import torch

BATCH, RATE = 400, 1e-3
FIRST, SECOND = np.float32(0.9), np.float32(0.999)  # decays of Adam's means
STEPS, CHECK_EVERY = {IMAGE: 592, TEXT: 5920}, 74
MODEL, INDEX, METRICS_FILE = "detectors", "images.parquet", "metrics.parquet"
Head = Callable[["torch.Tensor"], Floats]


def evaluate_detectors(
    base: str,
    assembled: Path,
    scenes: Path,
    *,
    split: str,
    device: str,
    batch_size: int,
    bootstrap: Bootstrap,
    folder: Path,
    gpus: float,
) -> pd.DataFrame:
    """Return table ``metrics`` of detectors on a checkpoint's frozen encoders; column ``benchmark`` names the form.

    ``PLANTED``, the positive control, is one more form. Each form is a trial. Its result is reused while the base
    and all tables are unchanged. ``evaluate_form`` says what is measured.

    Args:
        base: checkpoint folder.
        assembled: folder of stage ``assemble``, with the forms of the benchmark.
        scenes: folder of the source's pairs and images.
        split: split of the evaluated instances.
        device: auto, cpu or cuda.
        batch_size, bootstrap: as in ``evaluate_form``.
        folder: folder of the trials' results and the embedding store.
        gpus: GPUs of one trial, if the device is a GPU.
    """
    names = [name for name in FORMS if (assembled / f"{name}.parquet").exists()]
    trials = tune_grid(
        detect_on,
        [{"form": name} for name in (*names, *([PLANTED] if FORMS[0] in names else []))],
        settings={
            "base": LocalFile(base),
            "instances": {name: LocalFile(str(assembled / f"{name}.parquet")) for name in names},
            "training": LocalFile(str(assembled / "training.parquet")),
            "pairs": LocalFile(str(scenes / "pairs.parquet")),
            "indices": [_locate_index(data_folder / INDEX) for data_folder in (assembled, scenes)],
            "split": split,
            "device": device,
            "batch_size": batch_size,
            "bootstrap": asdict(bootstrap),
        },
        folder=folder,
        executor="inline",  # the forms share their embeddings, and a head trains quickly
        title="detectors",
        gpus=get_gpus_per_worker(gpus, device),
        plan=lambda point, name: {"store": os.path.realpath(Path(folder, "embeddings"))},
    )
    parts = [read_table(METRICS, trial.folder / METRICS_FILE) for trial in trials]
    return build_frame(METRICS, pd.concat(parts, ignore_index=True) if parts else [])


def _locate_index(path: Path) -> LocalFile:
    """Return an image index together with the shards that it refers to."""
    return LocalFile(str(path), around=tuple(list_shards(path, read_table(IMAGES, path))))


def detect_on(
    point: Mapping[str, Any],
    scratch: str,
    *,
    base: str,
    instances: Mapping[str, str],
    training: str,
    pairs: str,
    indices: Sequence[str],
    split: str,
    device: str,
    batch_size: int,
    bootstrap: Mapping[str, int],
    store: str,
) -> dict[str, Any]:
    """Evaluate detectors on one form of the benchmark and write table ``metrics`` into ``scratch``: one trial.

    Args:
        point: the ``form``; ``PLANTED`` is built from the first of ``FORMS``.
        scratch: folder of the trial.
        base, split: as in ``evaluate_detectors``.
        instances: path of the table of each form.
        training, pairs: paths of these tables.
        indices: paths of the tables of images.
        device, batch_size, store: as in ``evaluate_form``.
        bootstrap: fields of ``Bootstrap``.
    """
    name = point["form"]
    source = FORMS[0] if name == PLANTED else name
    data = load_probe_data(source, instances[source], training, pairs, indices, split)
    data = plant_artifacts(data, bootstrap["seed"]) if name == PLANTED else data
    metrics = evaluate_form(
        base, data, device=device, batch_size=batch_size, bootstrap=Bootstrap(**bootstrap), store=store
    )
    write_table(METRICS, metrics, Path(scratch, METRICS_FILE))
    return {}


def evaluate_form(
    base: str, form: ProbeData, *, device: str, batch_size: int, bootstrap: Bootstrap, store: str
) -> pd.DataFrame:
    """Return table ``metrics`` of detectors on one form; no rows if there is nothing to train on or to evaluate.

    The metrics are

    - those of retrieval by detection
    - ``accuracy``: the caption looks less synthetic than its negative
    - ``image_detected`` and ``text_detected``: share of items that are classified correctly
    - the same for each class alone: ``image_natural`` to ``text_synthetic``

    Args:
        base: checkpoint folder.
        form: training rows and evaluated rows.
        device: auto, cpu, cuda or cuda:N.
        batch_size: items per forward pass.
        bootstrap: settings of the intervals; its seed also sets the order of the training rows.
        store: folder of the vector store.
    """
    if not len(form.judged_rows) or not (form.learning_rows["split"] == "train").any():
        return build_frame(METRICS, [])
    outcomes = _compute_outcomes(
        _predict_probabilities(
            base, form, device=resolve_device(device), batch_size=batch_size, seed=bootstrap.seed, store=store
        )
    )
    named = form.judged_rows[["type", "subtype", "compounds"]].fillna("").itertuples(index=False, name=None)
    subsets: Any = [list_subsets(*row) for row in named]
    rows = form.judged_rows[["image_id"]].assign(subsets=subsets).reset_index(drop=True)
    metrics = compute_metrics(rows, outcomes, SUBTYPES.__contains__, bootstrap)
    return build_frame(METRICS, metrics.assign(model=MODEL, benchmark=form.name))


def _predict_probabilities(
    base: str, form: ProbeData, *, device: str, batch_size: int, seed: int, store: str
) -> dict[str, tuple[Floats, Floats]]:
    """Return the probabilities that the evaluated positives and negatives are synthetic, for each modality."""
    import torch

    probabilities = {}
    for modality_index, (modality, pictures) in enumerate(((IMAGE, form.load_image), (TEXT, None))):
        columns = POSITIVE[modality_index], NEGATIVE[modality_index]
        items = list(
            dict.fromkeys(pd.concat([t[c] for t in (form.learning_rows, form.judged_rows) for c in columns]))
        )
        at = {item: i for i, item in enumerate(items)}
        vectors = torch.from_numpy(
            encode_projected(base, items, pictures, device=device, batch_size=batch_size, store=store)
        )
        positions = {
            split: [np.array(rows[column].map(at), np.int64) for column in columns]
            for split, rows in (*form.learning_rows.groupby("split"), ("asked", form.judged_rows))
        }
        predict_proba = fit_head(
            vectors, positions["train"], positions.get("val"), steps=STEPS[modality], seed=seed
        )
        natural, synthetic = (predict_proba(vectors[rows]) for rows in positions["asked"])
        probabilities[modality] = natural, synthetic
    return probabilities


def fit_head(
    vectors: torch.Tensor, train: Sequence[Index], val: Sequence[Index] | None, *, steps: int, seed: int
) -> Head:
    """Train a head; return a function from vectors (n, d) to their probabilities of being synthetic, (n,).

    The head with the best val accuracy is kept; the earlier one, if two are equal.

    Args:
        vectors: vectors of all items.
        train: row numbers of the natural items and of the synthetic items, paired.
        val: the same for val, measured every ``CHECK_EVERY`` steps and at the end; None: the last head is kept.
        steps: number of steps.
        seed: seed of the order of the rows.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    rows = _append_ones(vectors)
    mean, square = np.zeros(
        (2, rows.shape[1]), np.float32
    )  # Adam's moving means of the gradient and its square
    head = np.zeros_like(mean)  # weights and bias; the problem is convex, so no random start is needed
    best, best_head = -1.0, head
    parts: list[torch.Tensor] = []
    # Adam is written out, because for so small a head torch's autograd and Adam take ten times as long.
    for step in range(1, steps + 1):
        parts = parts or [*torch.split(torch.randperm(len(train[0]), generator=generator), BATCH)]
        part = parts.pop().numpy()
        batch_rows = rows[np.concatenate([positions[part] for positions in train])]
        classes = np.repeat(np.array([0, 1], np.float32), len(part))
        gradient = (_compute_sigmoid(batch_rows @ head) - classes) @ batch_rows / np.float32(len(batch_rows))
        mean = FIRST * mean + (1 - FIRST) * gradient
        square = SECOND * square + (1 - SECOND) * gradient**2
        length = np.sqrt(square / np.float32(1 - float(SECOND) ** step)) + np.float32(1e-8)
        head = head - np.float32(RATE / (1 - float(FIRST) ** step)) * mean / length
        if step % CHECK_EVERY == 0 or step == steps:
            right = _compute_accuracy(head, rows, val) if val is not None else best + 1
            if right > best:
                best, best_head = right, head
    return lambda of: _compute_sigmoid(_append_ones(of) @ best_head).astype(np.float64)


def _append_ones(vectors: torch.Tensor) -> npt.NDArray[np.float32]:
    """Return vectors (n, d) with a column of ones at the end, (n, d + 1); the bias multiplies the ones."""
    return np.pad(vectors.numpy(), ((0, 0), (0, 1)), constant_values=1.0)


def _compute_sigmoid(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.asarray((1 + np.tanh(logits / 2)) / 2, np.float32)


def _compute_accuracy(
    head: npt.NDArray[np.float32], rows: npt.NDArray[np.float32], positions: Sequence[Index]
) -> float:
    """Return the share of items that are classified correctly; a probability of one half counts as wrong."""
    natural, synthetic = (rows[of] @ head for of in positions)
    return float(np.concatenate([natural < 0, synthetic > 0]).mean())


def _compute_outcomes(chances: Mapping[str, tuple[Floats, Floats]]) -> Outcomes:
    """Return the outcomes of the n instances: retrieval by detection, caption choice and correct classification."""
    count = len(chances[TEXT][0])
    rows = pd.DataFrame({name: np.concatenate(pair) for name, pair in chances.items()})
    rows[LABEL] = np.repeat([0, 1], count)
    row_names = [f"item {i}" for i in range(2 * count)]
    both, _ = compute_detector_outcomes(rows, row_names, MODEL)
    alone, _ = compute_detector_outcomes(rows.drop(columns=IMAGE), row_names, MODEL)
    right = {
        f"{modality}_{name}": (np.asarray(of) > 0.5 if name == "synthetic" else np.asarray(of) < 0.5).astype(
            float
        )
        for modality, column in (("image", IMAGE), ("text", TEXT))
        for name, of in zip(("natural", "synthetic"), chances[column], strict=True)
    }
    classes = pd.DataFrame(right)
    hits = pd.concat([alone.hits[["accuracy"]], both.hits, classes], axis=1)
    ties = pd.concat([alone.ties[["accuracy"]], both.ties, classes.astype(bool) & False], axis=1)
    return Outcomes(hits, ties)
