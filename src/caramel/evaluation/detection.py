"""Train BiVLC's detectors on the encoder of any dual encoder, and let them answer any benchmark of pairs.

This is Table 5 of BiVLC (Miranda et al. 2024, 5.3 and E.3): CLIP_Det on the base encoder, and the same on
CLIP_TROHN-Img. The training is that of ``synthetic_probe``, with the published epochs instead of fixed steps.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from caramel.benchmarks.image_files import read_encoded_image
from caramel.errors import BackendError, ConfigError, DataError
from caramel.evaluation.benchmark_source import BenchmarkSource, check_instances, read_task
from caramel.evaluation.external.detector_files import IMAGE, LABEL, TEXT, compute_detector_outcomes
from caramel.evaluation.mlflow_logging import log_metrics
from caramel.evaluation.results.summary import compute_metrics
from caramel.evaluation.scores.features import encode_projected
from caramel.evaluation.synthetic_probe import BATCH, Head, fit_head
from caramel.interfaces.benchmark import ABSENT, Comparisons
from caramel.models.devices import resolve_device
from caramel.models.open_clip.loader import adopt_pretrained
from caramel.models.specs import hash_content, open_model, parse_spec
from caramel.registry import BENCHMARKS, FAMILIES
from caramel.runtime.mlflow import tracking
from caramel.runtime.ray.sharded_map import compute_fingerprint
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame
from caramel.utils.arrays import Floats
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.resampling import Bootstrap

if TYPE_CHECKING:
    import torch

EPOCHS = {IMAGE: 1, TEXT: 10}
VAL_SHARE = 0.2  # of the images, as TROHN-Img is divided
LENGTH = 10.0  # of vectors of other families than open_clip: about that of CLIP's projected vectors
CHUNK = 1024  # items that are read at a time
Encoder = Callable[[Sequence[str], Callable[[str], bytes] | None], "torch.Tensor"]


@dataclass(frozen=True)
class DetectorConfig:
    """How detectors are trained.

    Attributes:
        epochs: passes through the training rows by modality, each > 0.
        device: auto, cpu, cuda or cuda:N.
        batch_size: items per forward pass.
        seed: seed of the split into train and val, and of the order of the rows.
        store: folder of the vector store, and of the weights of named models.
    """

    epochs: Mapping[str, int]
    device: str
    batch_size: int
    seed: int
    store: Path


def train_detectors(
    spec: str, source: BenchmarkSource, config: DetectorConfig
) -> tuple[Encoder, dict[str, Head]]:
    """Return the frozen encoder of a model, and a head by modality that gives probabilities of being synthetic.

    Args:
        spec: model, as in ``caramel eval``.
        source: the training set, a benchmark whose rows have a negative image.
        config: how they are trained. A fifth of the images, with all their rows, is val.

    Raises:
        ConfigError: the model is no dual encoder.
        BackendError: the model is missing or damaged.
        DataError: the training set has no negative images, or too few images for train and val.
    """
    task = read_pairs(source)
    rows = task.rows
    if (rows["negative_image"] == ABSENT).any():
        raise DataError(
            f"{source.data!r} has rows without a negative image. Detectors train on natural and on synthetic images: "
            f"give a set in BiVLC's form."
        )
    names = sorted(rows["image_id"].unique())
    ranked = [names[i] for i in np.argsort(compute_stable_keys(pd.Series(names, dtype=object), config.seed))]
    val = rows["image_id"].isin(ranked[: math.ceil(VAL_SHARE * len(ranked))]).to_numpy(bool)
    if val.all():
        raise DataError(
            f"{source.data!r} shows one image: there is none to choose the detectors on. Use more data."
        )
    encode, heads = open_encoder(spec, config), {}
    for modality in (IMAGE, TEXT):
        items, load = list_items(task, modality)
        vectors, position = encode_distinct(encode, items, load)
        classes = position[: len(rows)], position[len(rows) :]  # natural, synthetic
        train, chosen = ([of[mask] for of in classes] for mask in (~val, val))
        steps = config.epochs[modality] * math.ceil(len(train[0]) / BATCH)
        heads[modality] = fit_head(vectors, train, chosen, steps=steps, seed=config.seed)
    return encode, heads


def detect_pairs(encode: Encoder, heads: Mapping[str, Head], task: Comparisons) -> pd.DataFrame:
    """Return the detectors' answers in BiVLC's form: all natural items, then all synthetic ones, in the order of the rows.

    Columns are ``text_pred``, ``img_pred`` (if every row has two images) and ``label``.
    """
    columns: dict[str, Floats] = {}
    for modality, head in heads.items():
        if modality == IMAGE and (task.rows["negative_image"] == ABSENT).any():
            continue
        vectors, position = encode_distinct(encode, *list_items(task, modality))
        columns[modality] = head(vectors)[position]
    return pd.DataFrame({**columns, LABEL: np.repeat([0, 1], len(task.rows))})


def measure_detectors(
    answers: pd.DataFrame, task: Comparisons, *, model: str, benchmark: str, bootstrap: Bootstrap
) -> pd.DataFrame:
    """Return table ``metrics`` of ``detect_pairs``: accuracy of detection, and retrieval by detection alone."""
    outcomes, _ = compute_detector_outcomes(answers, [f"row {i}" for i in range(len(answers))], model)
    rows = task.rows[["image_id", "subsets"]].reset_index(drop=True)
    metrics = compute_metrics(rows, outcomes, BENCHMARKS[benchmark].macro, bootstrap)
    return build_frame(METRICS, metrics.assign(model=model, benchmark=benchmark))


def log_detectors(
    metrics: pd.DataFrame, spec: str, source: BenchmarkSource, config: DetectorConfig, *, benchmark: str
) -> None:
    """Log the metrics of a model's detectors on a benchmark as a run in MLflow; equal results are one run."""
    params = {
        "model": spec,
        "benchmark": benchmark,
        "training": source.data,
        "seed": config.seed,
        **config.epochs,
    }
    content = hashlib.sha256(metrics.to_csv(index=False).encode()).hexdigest()
    name = f"detectors of {parse_spec(spec).name} on {benchmark}"
    tags = {"stage": "detect", "benchmark": benchmark}
    key = compute_fingerprint(__name__, params, content)
    with tracking.run(name, key=key, params=params, tags=tags):
        log_metrics(metrics)


def read_pairs(source: BenchmarkSource) -> Comparisons:
    """Return the instances of a set with positive and negative captions.

    Raises:
        ConfigError: the benchmark has no such pairs.
        DataError: a file is missing or broken.
    """
    task = read_task(source)
    check_instances(task, source)
    if not isinstance(task, Comparisons) or task.rows[["caption", "negative_caption"]].isna().any(axis=None):
        raise ConfigError(
            f"Benchmark {source.benchmark!r} has no negative caption for each caption, and detectors compare these."
        )
    return task


def list_items(task: Comparisons, modality: str) -> tuple[list[str], Callable[[str], bytes] | None]:
    """Return the natural items of all rows, then the synthetic ones, and what loads an image; None for texts."""
    if modality == TEXT:
        return [*task.rows["caption"], *task.rows["negative_caption"]], None
    named = {str(index): image for index, image in enumerate(task.images)}
    return [*map(str, [*task.rows["image"], *task.rows["negative_image"]])], lambda name: read_encoded_image(
        named[name]
    )


def encode_distinct(
    encode: Encoder, items: Sequence[str], load: Callable[[str], bytes] | None
) -> tuple[torch.Tensor, np.ndarray]:
    """Return the vectors of the distinct items, and the position of each item among these."""
    distinct = list(dict.fromkeys(items))
    at = {item: index for index, item in enumerate(distinct)}
    return encode(distinct, load), np.array([at[item] for item in items], np.int64)


def open_encoder(spec: str, config: DetectorConfig) -> Encoder:
    """Return a function from distinct items to vectors (n, d).

    For models of open_clip these are BiVLC's: projected, not normalised, and stored. For other dual encoders they are
    the model's unit vectors times ``LENGTH``.

    Raises:
        ConfigError: the model is no dual encoder.
        BackendError: it is missing or damaged.
    """
    import torch

    parsed, device = parse_spec(spec), resolve_device(config.device)
    if parsed.family == "open_clip":
        folder = _find_checkpoint(parsed.target, spec, config.store)

        def encode_stored(items: Sequence[str], load: Callable[[str], bytes] | None) -> torch.Tensor:
            return torch.from_numpy(
                encode_projected(
                    str(folder),
                    items,
                    load,
                    device=device,
                    batch_size=config.batch_size,
                    store=str(config.store),
                )
            )

        return encode_stored
    if FAMILIES[parsed.family].form != "dual":
        raise ConfigError(
            f"Model {spec!r} is no dual encoder: a detector needs a vector of an image alone, and of a text alone."
        )
    model = open_model(spec, device, "fp32")

    def encode_unit(items: Sequence[str], load: Callable[[str], bytes] | None) -> torch.Tensor:
        chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
        parts = [
            model.encode_texts(part, config.batch_size)  # type: ignore[union-attr]
            if load is None
            else model.encode_images([load(item) for item in part], config.batch_size)  # type: ignore[union-attr]
            for part in chunks
        ]
        return torch.from_numpy(LENGTH * np.concatenate(parts))

    return encode_unit


def _find_checkpoint(target: str, spec: str, store: Path) -> Path:
    """Return the folder of a checkpoint; a model by name, or in a file, is written into the store first."""
    if Path(target).is_dir():
        return Path(target)
    folder = store / "checkpoints" / hashlib.sha256(hash_content(spec).encode()).hexdigest()[:32]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as partial:
            try:
                adopt_pretrained(pretrained=target, out=Path(partial, "checkpoint"))
            except BackendError as error:
                raise BackendError(str(error).replace("pretrain.pretrained", "--model")) from error
            with contextlib.suppress(FileExistsError):  # another process was faster, with equal weights
                Path(partial, "checkpoint").rename(folder)
    return folder
