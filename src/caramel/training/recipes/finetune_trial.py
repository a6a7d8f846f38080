"""Run one trial of the stage ``finetune``: fine-tune one variant with one seed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from caramel.interfaces.method import Method
from caramel.interfaces.trainer import Curve
from caramel.io.files import compute_file_hash
from caramel.io.image_store import ImageStore
from caramel.models.devices import resolve_device, resolve_precision
from caramel.models.open_clip.checkpoints import (
    CONFIG,
    VOCABULARY,
    load_checkpoint,
    read_config,
    save_checkpoint,
)
from caramel.models.open_clip.config import Clip
from caramel.registry import METHODS
from caramel.runtime.mlflow import tracking
from caramel.runtime.ray.asha import report_checkpoint
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.training.data.examples import Examples, load_examples
from caramel.training.data.list_columns import count_present
from caramel.training.data.row_units import RowCounts, select_usable_rows
from caramel.training.distributed import DistContext, Tell, launch
from caramel.training.loop.batch_accuracy import METRIC
from caramel.training.loop.contrastive import measure_validation, train_clip
from caramel.training.loop.loop import best_step
from caramel.training.objective import add_logit_bias
from caramel.training.tracked import log_curve, plot_curve
from caramel.training.variants import VariantConfig, resolve_variant, split_rows
from caramel.training.weight_averaging import WiseFTPoint, select_alpha

if TYPE_CHECKING:
    import torch

CHECKPOINT = "checkpoint"  # folder of a trial
# The metric on val by which the best step's weights are kept, by validation method. It uses the first
# negative of each row: ``group`` if all of these have an image, otherwise ``accuracy``.
SELECTION_METRICS = {
    "trohn_img": "group",
    "trohn_text": "accuracy",
}


def finetune_trial(
    point: Mapping[str, Any],
    scratch: str,
    *,
    base: str,
    rows: str,
    images: str,
    common: Mapping[str, Any],
    num_workers: int,
    nproc: int,
    planned: tracking.PlannedRun,
    ending: tuple[str, int, int] | None = None,
) -> dict[str, Any]:
    """Fine-tune one variant with one seed in ``scratch``, tracked as one MLflow run; see ``train_variant``.

    Args:
        nproc: processes that train together, on this machine.
        planned: the MLflow run.
        ending: (metric, steps between checkpoints, total steps) if the trial may end early; None
            if it may not.
        point, scratch, base, rows, images, common, num_workers: as in ``train_variant``.

    Returns {"variant", "seed", "curve", "select", "mixtures"}. ``select`` is the metric by which the weights
    were selected, or "" if the last ones were kept. The checkpoint is the folder ``CHECKPOINT`` in
    ``scratch``.
    """
    variant, seed = point["variant"], point["seed"]
    whole = {
        "point": dict(point), "scratch": scratch, "base": base, "rows": rows, "images": images,
        "common": common, "num_workers": num_workers,
    }  # fmt: skip
    with tracking.open_run(planned):
        import mlflow

        def log_new_points(points: Curve) -> None:
            log_curve(points)
            for step, name, value in points:
                if ending and name == ending[0] and step < ending[2]:
                    report_checkpoint(step // ending[1], name, value)

        result: dict[str, Any] = launch(train_variant, whole, nproc, log_new_points)
        curve, select = result["curve"], result["select"]
        mlflow.log_dict(read_config(Path(scratch, CHECKPOINT, CONFIG)), "model_config.json")
        mlflow.log_metric("kept_step", best_step(curve, select))
        mlflow.log_figure(plot_curve(curve, f"{variant}-{seed}"), "learning_curve.png")
    return {"variant": variant, "seed": seed, **result}


def train_variant(
    group: DistContext,
    tell: Tell,
    *,
    point: Mapping[str, Any],
    scratch: str,
    base: str,
    rows: str,
    images: str,
    common: Mapping[str, Any],
    num_workers: int,
) -> dict[str, Any]:
    """Train one variant with one seed; the first process of the group writes the checkpoint.

    With ``keep`` best, the weights of the step with the best metric on val (``choose_selection_metric``) are
    kept, as in BiVLC; the earliest step wins a tie. With ``keep`` last, or without val rows that the metric can use,
    the last weights are kept. The checkpoint's card says which weights were kept.

    Args:
        group, tell: arguments that ``distributed.launch`` passes.
        point, common, num_workers: as in ``resolve_variant``.
        scratch: folder that survives a crash; holds the resumable state and the checkpoint.
        base: checkpoint folder to start from.
        rows: path of the ``training`` table, with rows for training (train) and validation (val).
        images: path of the images table.

    Returns {"curve", "select", "mixtures"} as in ``finetune_trial``; {} in the other processes.
    """
    import torch

    torch.set_num_threads(1)  # one process per core; the weights do not depend on the number of cores
    variant, seed = point["variant"], point["seed"]
    name, out = f"{variant}-{seed}", Path(scratch) / CHECKPOINT
    train_rows, val_rows = split_rows(rows)
    config = resolve_variant(point, common, counts=RowCounts.from_rows(train_rows), num_workers=num_workers)
    method = config.method
    image_store = ImageStore(images, read_table(IMAGES, images))
    clip = load_checkpoint(base)
    if method.bias:
        clip = add_logit_bias(clip)
    examples = load_examples(clip, train_rows, image_store, method=method, unit=config.rows, seed=seed)
    measured = METHODS[select_validation_method(val_rows)]
    metric = choose_selection_metric(config.selection_metric, val_rows)
    usable = select_usable_rows(val_rows, measured)
    validation = [load_examples(clip, usable, image_store, method=measured)] if len(usable) else []
    deciding = select_deciding_rows(metric, val_rows, method)
    own_validation = (
        [load_examples(clip, deciding, image_store, method=method, unit=config.rows, seed=seed)]
        if metric == METRIC and len(deciding)
        else []
    )
    select = metric if config.keep == "best" and len(deciding) else ""
    del train_rows, val_rows, usable, deciding  # millions of texts; the training has their tokens
    before = (
        {key: value.cpu().clone() for key, value in clip.model.state_dict().items()}
        if config.wise_ft_alphas
        else {}
    )
    curve = train_clip(
        clip,
        examples,
        validation,
        config.training,
        own_validation=own_validation,
        scratch=Path(scratch),
        title=name,
        on_points=tell,
        select=select,
        group=group,
    )
    if group.rank:
        return {}
    mixtures = interpolate_with_base(clip, before, validation, own_validation, metric, config)
    vocabulary = Path(base) / VOCABULARY
    card = {
        "name": name,
        "variant": variant,
        "seed": seed,
        "base": compute_file_hash(base),
        "step": best_step(curve, select),
        "kept": f"best {select} on val" if select else "last step",
        "mixed": next((mixture.alpha for mixture in mixtures if mixture.selected), None),
    }
    vocabulary_bytes = vocabulary.read_bytes() if vocabulary.exists() else None
    if out.exists():  # left by an earlier run of the trial
        shutil.rmtree(out)
    save_checkpoint(
        out, clip.model, config=clip.config, vocabulary=vocabulary_bytes, card=card, tokenizer=clip.tokenize
    )
    return {"curve": curve, "select": select, "mixtures": mixtures}


def interpolate_with_base(
    clip: Clip,
    before: Mapping[str, torch.Tensor],
    validation: Sequence[Examples],
    own_validation: Sequence[Examples],
    select: str,
    config: VariantConfig,
) -> list[WiseFTPoint]:
    """Load the mixture of model and base that is best on the validation rows; return each mixture's metrics.

    Without validation rows or ``wise_ft_alphas``, the model does not change.
    """
    if not (config.wise_ft_alphas and (own_validation if select == METRIC else validation)):
        return []
    compute, loop = config.training.compute, config.training.loop
    device = resolve_device(compute.device)
    precision = resolve_precision(compute.precision, device)
    return select_alpha(
        clip.model,
        before,
        config.wise_ft_alphas,
        lambda: measure_validation(clip, validation, own_validation, loop, device, precision),
        select,
    )


def choose_selection_metric(selection_metric: str, val_rows: pd.DataFrame) -> str:
    """Return the metric on val by which weights and settings are selected.

    It is that of ``batch_accuracy``, or that of ``SELECTION_METRICS``.
    """
    return METRIC if selection_metric == METRIC else SELECTION_METRICS[select_validation_method(val_rows)]


def select_deciding_rows(metric: str, val_rows: pd.DataFrame, method: Method) -> pd.DataFrame:
    """Return the val rows on which weights and settings of a method are selected by a metric; perhaps none."""
    deciding = method if metric == METRIC else METHODS[select_validation_method(val_rows)]
    return select_usable_rows(val_rows, deciding)


def select_validation_method(val_rows: pd.DataFrame) -> str:
    """Return ``trohn_img`` if the first negative of every val row has an image, otherwise ``trohn_text``."""
    # Negatives with an image come first.
    return "trohn_img" if (count_present(val_rows, "negative_image_ids") > 0).all() else "trohn_text"
