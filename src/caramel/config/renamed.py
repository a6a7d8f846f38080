"""Keys of ``params.yaml`` by the names that caramel 0.1 had for them.

``RENAMED`` serves three readers: an old key in a params file is an error that says the new one, ``caramel upgrade``
rewrites the files of a project, and the params in an old pin are read by their new names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TRAINING = {"batch": "batch_size", "warmup": "warmup_steps"}
_BY_SECTION: Mapping[str, Mapping[str, str]] = {
    "run": {"workers": "num_workers"},
    "scenes": {
        "files": "data_dir",
        "objects": "num_objects",
        "further_objects": "allow_unmentioned_objects",
        "unseen": "unseen_frac",
        "prior": "typical_color_prob",
        "held_out": "val_test_frac",
    },
    "train_writer": {**_TRAINING, "width": "hidden_size", "layers": "num_layers"},
    "negatives": {"attempts": "max_attempts"},
    "negatives.language_model": {
        "structured": "response_schema",
        "at_once": "max_connections",
        "longest": "max_length_ratio",
        "similar": "max_similarity",
        "slack": "max_extra_edits",
        "overlap": "min_overlap",
        "entailed": "entailment_threshold",
        "grammatical": "grammar_threshold",
        "price_in": "price_per_mtok_in",
        "price_out": "price_per_mtok_out",
    },
    "train_generator": {
        **_TRAINING,
        "ema": "ema_decay",
        "patch": "patch_size",
        "width": "hidden_size",
        "layers": "num_layers",
        "drop_caption": "caption_dropout",
        "shown": "visible_frac",
    },
    "pretrain": _TRAINING,
    "synthesize": {"shard": "shard_size", "size": "image_size", "batch": "batch_size"},
    "filter_images": {"min_faithful": "faithfulness_threshold"},
    "finetune": {
        **_TRAINING,
        "own": "overrides",
        "trained": "trainable",
        "last_layers": "unlocked_layers",
        "per_pass": "evals_per_epoch",
        "processes": "nproc",
        "rows_at_once": "micro_batch_size",
        "recompute": "grad_checkpointing",
        "max_gradient": "grad_clip_norm",
        "ema": "ema_decay",
        "mix": "wise_ft_alphas",
    },
    "evaluate": {"retrieval": "retrieval_images", "batch": "batch_size", "bootstrap": "n_bootstrap"},
    "report": {"contrast": "primary_comparison"},
}
# Old dotted key -> new dotted key. ``finetune.own.VARIANT`` and ``finetune.search.space.VARIANT`` hold keys of finetune.
RENAMED: Mapping[str, str] = {
    f"{section}.{old}": f"{section}.{new}"
    for section, names in _BY_SECTION.items()
    for old, new in names.items()
}
