"""Train the base model: a CLIP from random weights, on the pairs of the train split and their negative captions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.errors import BackendError, ConfigError, DataError, format_items
from caramel.interfaces.method import Method
from caramel.interfaces.trainer import Curve
from caramel.interfaces.training_settings import ALL_WEIGHTS, BaseConfig, ContrastiveConfig
from caramel.models.open_clip.checkpoints import build_model, save_checkpoint
from caramel.models.open_clip.config import assemble_clip
from caramel.models.open_clip.tokenizer import learn_merges
from caramel.training.data.batch import count_rows_per_step
from caramel.training.data.examples import load_examples
from caramel.training.data.list_columns import LISTS
from caramel.training.loop.contrastive import train_clip
from caramel.training.methods import infonce, negclip
from caramel.training.recipes.locked_image import train_locked_clip

# Settings of this training that have no key in the params.
FIXED = {"micro_batch_size": None, "grad_checkpointing": False, "patience": None, "ema_decay": None}


def pretrain_base(
    pairs: pd.DataFrame,
    images: Mapping[str, bytes],
    texts: Iterable[str],
    *,
    pretrained: str | None,
    settings: BaseConfig,
    scratch: Path,
    out: Path,
    on_points: Callable[[Curve], None] | None = None,
) -> Curve:
    """Train a CLIP and write its checkpoint folder to ``out``; return the curve.

    Args:
        pairs: table ``pairs``, with rows for training (train) and validation (val); with the columns of
            ``join_negatives``, they are trained on with NegCLIP's loss, else with InfoNCE.
        images: encoded files by image_id.
        texts: captions to learn the vocabulary from; not read if the model config states its ``vocab_size``: the
            tokenizer is then open_clip's own.
        pretrained: not used by this backend.
        settings: how the model is trained.
        scratch: folder of the resumable state.
        out: folder of the checkpoint.
        on_points: as in ``train_clip``.

    Raises:
        BackendError: the model config is missing or invalid.
        DataError: the image tower must learn scenes, and a pair has no scene.
    """
    import torch
    from open_clip.tokenizer import SimpleTokenizer

    loop = settings.loop
    model_config = _read_model_config(settings.model)
    vocabulary = None
    if "vocab_size" not in model_config["text_cfg"]:
        vocabulary = learn_merges(texts, scratch / "bpe.txt.gz")
        model_config["text_cfg"]["vocab_size"] = SimpleTokenizer(str(vocabulary)).vocab_size
    config = {"model_cfg": model_config, "preprocess_cfg": {}}
    torch.manual_seed(loop.seed)
    clip = assemble_clip(build_model(config, settings.model), config, vocabulary)
    method = _select_method(pairs)
    train_rows, val_rows = (_select_rows(pairs, split) for split in ("train", "val"))
    examples = load_examples(clip, train_rows, images, method=method)
    examples = replace(examples, block_size=settings.block_size)
    validation = [load_examples(clip, val_rows, images, method=method)] if len(val_rows) else []
    if settings.image_steps:
        curve = train_locked_clip(
            clip,
            examples,
            validation,
            _get_scenes(train_rows),
            settings=settings,
            scratch=scratch,
            on_points=on_points,
        )
    else:
        curve = train_clip(
            clip,
            examples,
            validation,
            ContrastiveConfig(loop, settings.optimizer, ALL_WEIGHTS, settings.compute),
            scratch=scratch,
            title="pretrain",
            on_points=on_points,
        )
    card = {"name": "base", "seed": loop.seed, "steps": loop.steps}
    content = None if vocabulary is None else vocabulary.read_bytes()
    save_checkpoint(out, clip.model, config=config, vocabulary=content, card=card)
    return curve


def join_negatives(pairs: pd.DataFrame, negatives: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs with the lists ``negative_captions``, ``negative_image_ids`` and ``subtypes`` of a training table.

    Args:
        pairs: table ``pairs``.
        negatives: table ``negatives``; no negative has an image.
    """
    columns = {"negative_captions": "negative_caption", "subtypes": "subtype"}
    lists = {name: negatives.groupby("pair_id")[column].agg(list) for name, column in columns.items()}
    joined = {
        name: pairs["pair_id"].map(column).map(lambda values: values if isinstance(values, list) else [])
        for name, column in lists.items()
    }
    no_images = joined["subtypes"].map(lambda values: [None] * len(values))
    return pairs.assign(**joined, negative_image_ids=no_images)


def resolve_steps(
    pairs: pd.DataFrame, *, steps: int, epochs: int | None, batch_size: int, warmup_steps: int
) -> int:
    """Return the number of steps: those of the epochs, if epochs are set.

    Args:
        pairs: as in ``pretrain_base``.
        steps, batch_size, warmup_steps: as in ``LoopConfig`` and ``OptimizerConfig``.
        epochs: passes through the training rows, > 0. None: ``steps`` is returned.

    Raises:
        ConfigError: the warm-up is longer than the epochs.
    """
    if epochs is None:
        return steps
    method, rows = _select_method(pairs), len(_select_rows(pairs, "train"))
    steps = epochs * max(1, rows // count_rows_per_step(method, batch_size, neighbours=False))
    if warmup_steps > steps:
        raise ConfigError(
            f"pretrain.warmup_steps = {warmup_steps}: {epochs} epochs of {rows} rows are {steps} steps, so it would "
            f"never reach its learning rate. Set a shorter warm-up, or more epochs."
        )
    return steps


def _select_method(pairs: pd.DataFrame) -> Method:
    """Return NegCLIP's method if the pairs have negatives, else InfoNCE.

    NegCLIP's nearest neighbours are those of a trained model's vectors, so there are none here.
    """
    return replace(negclip.METHOD, neighbours=0) if LISTS[0] in pairs else infonce.METHOD


def _select_rows(pairs: pd.DataFrame, split: str) -> pd.DataFrame:
    """Return the rows of a split; where pairs have negatives, only those with at least one."""
    rows = pairs[pairs["split"] == split]
    return rows[rows[LISTS[0]].map(len) > 0] if LISTS[0] in rows else rows


def _get_scenes(rows: pd.DataFrame) -> pd.Series[str]:
    """Return the scene of each row's image.

    Raises:
        DataError: a row has no scene.
    """
    unknown = rows.loc[rows["scene"].isna(), "pair_id"]
    if len(unknown):
        raise DataError(
            f"pretrain.image_steps: {len(unknown)} of {len(rows)} training pairs have no scene for the image "
            f"tower to learn:\n{format_items([repr(name) for name in unknown])}\n"
            f"Set pretrain.image_steps: 0 to train both towers together."
        )
    return rows["scene"]


def _read_model_config(path: str) -> dict[str, Any]:
    """Return the model config."""
    try:
        config: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BackendError(f"pretrain.model = {path!r}: no such file.") from None
    except json.JSONDecodeError as error:
        raise BackendError(f"pretrain.model = {path!r} is not valid JSON: {error}") from error
    if not isinstance(config.get("text_cfg"), dict):
        raise BackendError(f"pretrain.model = {path!r}: 'text_cfg' is missing.")
    return config
