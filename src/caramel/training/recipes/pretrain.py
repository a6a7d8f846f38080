"""The base model: a CLIP trained from nothing on the pairs of the train split."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from caramel.errors import BackendError, DataError, format_items
from caramel.interfaces.trainer import Curve
from caramel.models.open_clip.checkpoints import assemble_clip, build_model, save_checkpoint
from caramel.models.open_clip.tokenizer import learn_merges
from caramel.training.data.examples import load_examples
from caramel.training.loop.contrastive import train_clip
from caramel.training.methods import infonce
from caramel.training.recipes.locked_image import LoopSettings, train_locked_clip


def pretrain_base(
    pairs: pd.DataFrame,
    images: Mapping[str, bytes],
    texts: Iterable[str],
    *,
    pretrained: str | None,
    model: str,
    seed: int,
    image_steps: int,
    steps: int,
    batch_size: int,
    block_size: int,
    lr: float,
    warmup_steps: int,
    weight_decay: float,
    checkpoint_every: int,
    device: str,
    precision: str,
    num_workers: int,
    scratch: Path,
    out: Path,
    on_points: Callable[[Curve], None] | None = None,
) -> Curve:
    """Train a CLIP with InfoNCE and write its checkpoint folder to ``out``; return the curve.

    Args:
        pairs: table ``pairs``; train rows are trained on, val rows measured.
        images: encoded files by image_id.
        texts: captions to learn the vocabulary from.
        pretrained: not used by this backend.
        model: path of an open_clip model config (JSON).
        seed: of the initial weights and of the batches.
        image_steps: steps in which the image tower learns what scenes show, before it is locked and texts are aligned to it
            (``locked_image``); 0: both towers learn together, from pairs alone.
        block_size: rows that follow each other in the table and stay together in a batch; see ``Examples``.
        scratch: where resumable state lies.
        steps, batch, lr, warmup, weight_decay, checkpoint_every, device, precision, workers, on_points:
            as in ``contrastive.fit``.

    Raises:
        BackendError: the model config is missing or wrong.
        DataError: the image tower is to learn scenes, and a pair has none.
    """
    import torch

    vocabulary = learn_merges(texts, scratch / "bpe.txt.gz")
    config = {"model_cfg": _read_model_config(model, vocabulary), "preprocess_cfg": {}}
    torch.manual_seed(seed)
    clip = assemble_clip(build_model(config, model), config, vocabulary)
    train_rows, val_rows = (pairs[pairs["split"] == split] for split in ("train", "val"))
    examples = load_examples(clip, train_rows, images, method=infonce.METHOD)
    examples = replace(examples, block_size=block_size)
    validation = [load_examples(clip, val_rows, images, method=infonce.METHOD)] if len(val_rows) else []
    loop = LoopSettings(seed, batch_size, lr, warmup_steps, weight_decay, checkpoint_every, device, precision)
    if image_steps:
        curve = train_locked_clip(
            clip,
            examples,
            validation,
            _get_scenes(train_rows),
            image_steps=image_steps,
            steps=steps,
            settings=loop,
            scratch=scratch,
            on_points=on_points,
        )
    else:
        curve = train_clip(
            clip,
            examples,
            validation,
            **asdict(loop),
            steps=steps,
            num_workers=num_workers,
            scratch=scratch,
            title="pretrain",
            on_points=on_points,
        )
    card = {"name": "base", "seed": seed, "steps": steps}
    save_checkpoint(out, clip.model, config=config, vocabulary=vocabulary.read_bytes(), card=card)
    return curve


def _get_scenes(rows: pd.DataFrame) -> pd.Series[str]:
    """Return what the image of each row shows.

    Raises:
        DataError: that is not known of a row.
    """
    unknown = rows.loc[rows["scene"].isna(), "pair_id"]
    if len(unknown):
        raise DataError(
            f"pretrain.image_steps: {len(unknown)} of {len(rows)} training pairs have no scene for the image tower to learn:\n"
            f"{format_items([repr(name) for name in unknown])}\nSet pretrain.image_steps: 0: both towers then learn together."
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
