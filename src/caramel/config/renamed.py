"""Map keys of ``params.yaml`` from their names in caramel 0.1 to the current names.

``RENAMED`` has three uses:

- An old key in a params file is an error that gives the new one.
- ``caramel upgrade`` rewrites the files of a project.
- The params in an old pin are read by their new names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
# Text checks for ``negatives.language_model.required``.
CHECKS: Mapping[str, str] = {
    "finished": "complete",
    "plain": "single_sentence",
    "new": "not_copy",
    "place": "edit_location",
    "unsaid": "novel_word",
}
# Old dotted key -> new dotted key.
RENAMED: Mapping[str, str] = {
    f"{section}.{old}": f"{section}.{new}"
    for section, names in _BY_SECTION.items()
    for old, new in names.items()
}
_FORMER = {new: old for old, new in _BY_SECTION["finetune"].items()}


def rename_key(path: Sequence[str], key: str) -> str:
    """Return the current name of a key below a path of keys, whose names may be old or new.

    ``finetune.overrides`` and ``finetune.search.space`` hold keys of ``finetune`` for each variant, which may
    be dotted (``lora.rank``).
    """
    section = ".".join(path)
    of_variant = len(path) == 3 and path[:2] in (["finetune", "own"], ["finetune", "overrides"])
    if of_variant or (len(path) == 4 and path[:3] == ["finetune", "search", "space"]):
        section = "finetune"
    head, dot, rest = key.partition(".")
    return _BY_SECTION.get(section, {}).get(head, head) + dot + rest


def rename_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return params of any version with the current names."""
    return {key: _rename_value([key], value) for key, value in params.items()}


def _rename_value(path: list[str], value: Any) -> Any:
    if isinstance(value, Mapping):
        return {rename_key(path, key): _rename_value([*path, key], part) for key, part in value.items()}
    if path[-1] == "required" and isinstance(value, list):
        return [CHECKS.get(name, name) if isinstance(name, str) else name for name in value]
    return value


def rename_dotted(text: str) -> str:
    """Return a text with each old dotted key replaced by its new name, as in ``dvc.yaml``."""
    return _DOTTED.sub(lambda match: RENAMED[match[0]], text)


def get_former_key(key: str) -> str:
    """Return the name of a ``finetune`` key in caramel 0.1.

    A search draws by it, so that its points stay the same.
    """
    head, dot, rest = key.partition(".")
    return _FORMER.get(head, head) + dot + rest


_DOTTED = re.compile(
    r"(?<![\w.])(?:{})(?![\w.])".format("|".join(map(re.escape, sorted(RENAMED, key=len, reverse=True))))
)
