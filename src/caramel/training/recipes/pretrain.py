"""Train the base model: a CLIP from random weights, on the pairs of the train split."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from caramel.errors import BackendError, DataError, format_items
from caramel.interfaces.trainer import Curve
from caramel.interfaces.training_settings import ALL_WEIGHTS, BaseConfig, ContrastiveConfig
from caramel.models.open_clip.checkpoints import build_model, save_checkpoint
from caramel.models.open_clip.config import assemble_clip
from caramel.models.open_clip.tokenizer import learn_merges
from caramel.training.data.examples import load_examples
from caramel.training.loop.contrastive import train_clip
from caramel.training.methods import infonce
from caramel.training.recipes.locked_image import train_locked_clip

# Settings of this training that have no key in the params.
FIXED = {
    "betas": (0.9, 0.98), "eps": 1e-6, "grad_clip_norm": 1.0,
    "micro_batch_size": None, "grad_checkpointing": False, "patience": None, "ema_decay": None,
}  # fmt: skip


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
    """Train a CLIP with InfoNCE and write its checkpoint folder to ``out``; return the curve.

    Args:
        pairs: table ``pairs``, with rows for training (train) and validation (val).
        images: encoded files by image_id.
        texts: captions to learn the vocabulary from.
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

    loop = settings.loop
    vocabulary = learn_merges(texts, scratch / "bpe.txt.gz")
    config = {"model_cfg": _read_model_config(settings.model, vocabulary), "preprocess_cfg": {}}
    torch.manual_seed(loop.seed)
    clip = assemble_clip(build_model(config, settings.model), config, vocabulary)
    train_rows, val_rows = (pairs[pairs["split"] == split] for split in ("train", "val"))
    examples = load_examples(clip, train_rows, images, method=infonce.METHOD)
    examples = replace(examples, block_size=settings.block_size)
    validation = [load_examples(clip, val_rows, images, method=infonce.METHOD)] if len(val_rows) else []
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
    save_checkpoint(out, clip.model, config=config, vocabulary=vocabulary.read_bytes(), card=card)
    return curve


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


def _read_model_config(path: str, vocabulary: Path) -> dict[str, object]:
    """Return the model config with the vocabulary's size filled in."""
    from open_clip.tokenizer import SimpleTokenizer

    try:
        config: dict[str, object] = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BackendError(f"pretrain.model = {path!r}: no such file.") from None
    except json.JSONDecodeError as error:
        raise BackendError(f"pretrain.model = {path!r} is not valid JSON: {error}") from error
    text = config.get("text_cfg")
    if not isinstance(text, dict):
        raise BackendError(f"pretrain.model = {path!r}: 'text_cfg' is missing.")
    return {**config, "text_cfg": {**text, "vocab_size": SimpleTokenizer(str(vocabulary)).vocab_size}}
