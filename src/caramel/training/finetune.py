"""Fine-tuned variants of the base model: one Ray Tune experiment of variants × seeds."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel import tables
from caramel.models.clip.checkpoints import VOCABULARY, load_checkpoint, save_checkpoint
from caramel.registry import METHODS
from caramel.running import tracking
from caramel.running.parallel import Executor, fingerprint, tune_grid
from caramel.storage.files import file_hash
from caramel.storage.image_store import Pictures
from caramel.training.contrastive import fit, load_examples
from caramel.training.loop import kept_step
from caramel.training.tracked import curve_figure, curve_frame, log_curve

MEASURED_BY = (
    "negative_texts_images"  # the method whose set has all negatives: every variant is measured on it
)
SELECTED_BY = "group"  # on val: the weights that are kept are those of its best step


def finetune_trial(
    point: Mapping[str, Any],
    scratch: str,
    *,
    base: str,
    sets: Mapping[str, str],
    validation: str,
    images: str,
    settings: Mapping[str, Any],
    planned: tracking.Planned,
) -> dict[str, Any]:
    """Fine-tune one variant with one seed in ``scratch``, tracked as one MLflow run.

    The weights of the checkpoint with the best ``SELECTED_BY`` on the val rows are kept, as BiVLC does; of equal ones the
    earlier. Without val rows the last are. The checkpoint's card says which.

    Args:
        point: {"variant", "seed"}.
        scratch: folder that outlives a crash; holds the resumable state and the checkpoint.
        base: checkpoint folder to start from.
        sets: variant → path of its ``training`` table.
        validation: path of the ``training`` table, with negatives of all kinds, whose val rows every variant is measured on.
        images: path of the images table.
        settings: keyword arguments of ``contrastive.fit``.
        planned: the run.

    Returns {"variant", "seed", "checkpoint", "curve"}.
    """
    import torch

    torch.set_num_threads(1)  # one trial per core, and the same weights on any number of cores
    variant, seed = point["variant"], point["seed"]
    name, out = f"{variant}-{seed}", Path(scratch) / "checkpoint"
    rows = tables.read(tables.TRAINING, sets[variant])
    val_rows = tables.read(tables.TRAINING, validation)
    pictures = Pictures(images, tables.read(tables.IMAGES, images))
    clip = load_checkpoint(base)
    examples = load_examples(clip, rows[rows["split"] == "train"], pictures, method=METHODS[variant])
    measured = val_rows[val_rows["split"] == "val"]
    with tracking.opened(planned, {"train_rows": len(examples)}):
        import mlflow

        mlflow.log_dict(dict(clip.config), "model_config.json")
        curve = fit(
            clip,
            examples,
            [load_examples(clip, measured, pictures, method=METHODS[MEASURED_BY])] if len(measured) else [],
            seed=seed,
            scratch=Path(scratch),
            title=name,
            on_points=log_curve,
            select=SELECTED_BY,
            **settings,
        )
        kept = kept_step(curve, SELECTED_BY)
        mlflow.log_metric("kept_step", kept)
        mlflow.log_figure(curve_figure(curve, name), "learning_curve.png")
    vocabulary = Path(base) / VOCABULARY
    chosen = f"best {SELECTED_BY} on val" if len(measured) else "last step"
    card = {
        "name": name,
        "variant": variant,
        "seed": seed,
        "base": file_hash(base),
        "step": kept,
        "kept": chosen,
    }
    own = vocabulary.read_bytes() if vocabulary.exists() else None
    if out.exists():  # of a trial that is run again
        shutil.rmtree(out)
    save_checkpoint(out, clip.model, config=clip.config, vocabulary=own, card=card, tokenizer=clip.tokenize)
    return {"variant": variant, "seed": seed, "checkpoint": str(out), "curve": curve}


def finetune(
    *,
    variants: Sequence[str],
    seeds: Sequence[int],
    base: str,
    sets: Mapping[str, str],
    validation: str,
    images: str,
    data: Sequence[str],
    settings: Mapping[str, Any],
    executor: Executor,
    folder: Path,
    out: Path,
    root: Path,
    gpus: float = 0.0,
) -> pd.DataFrame:
    """Fine-tune all variants × seeds and copy their checkpoints to ``out/<variant>-<seed>``.

    Returns the learning curves: columns model, step, metric, value, kept.

    Args:
        variants, seeds: the grid.
        folder: where resumable trials lie.
        out: the stage's output folder.
        gpus: GPUs per trial.
        data: DVC paths to record as the runs' inputs.
        root: folder that holds ``mlruns/``.
        base, sets, validation, images, settings, executor: as in ``finetune_trial``.
    """
    points = [{"variant": variant, "seed": seed} for variant in variants for seed in seeds]

    def plan(point: dict[str, Any], scratch: str) -> tracking.Planned:
        name = f"{point['variant']}-{point['seed']}"
        return tracking.plan(
            f"finetune {name}",
            key=fingerprint(__name__, name, scratch),
            params={**point, **settings},
            data=data,
            tags={"stage": "finetune", "variant": point["variant"], "seed": str(point["seed"])},
            root=root,
        )

    results = tune_grid(
        finetune_trial,
        points,
        settings={
            "base": str(Path(base).resolve()),
            "sets": {name: str(Path(path).resolve()) for name, path in sets.items()},
            "validation": str(Path(validation).resolve()),
            "images": str(Path(images).resolve()),
            "settings": dict(settings),
        },
        inputs=[file_hash(path) for path in (base, *sets.values(), validation, images)],
        folder=folder,
        executor=executor,
        title="finetune",
        gpus=gpus,
        plan=plan,
    )
    curves = []
    for result in results:
        name = f"{result['variant']}-{result['seed']}"
        shutil.copytree(result["checkpoint"], out / name)
        curves.append(curve_frame(result["curve"], name, SELECTED_BY))
    return pd.concat(curves, ignore_index=True)
