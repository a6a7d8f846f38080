"""How far fine-tuned models went from their base: of their weights, and of what they encode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from caramel.errors import BackendError
from caramel.evaluation.encoding import Run, encode
from caramel.evaluation.item_scores import Dual
from caramel.evaluation.located import Source, keys_of, read_task
from caramel.kinds.benchmark import Index, Rankings
from caramel.models.clip.checkpoints import WEIGHTS
from caramel.models.families.specs import open_model
from caramel.models.state_dicts import read_state

TEMPERATURE = ("logit_scale", "logit_bias")


def distances(folders: Mapping[str, str], base: str, source: Source, run: Run) -> dict[str, dict[str, float]]:
    """Return of each model: ``weights``, ``images`` and ``texts``; see ``results.retained.MOVED``.

    ``weights`` is ‖θ − θ0‖ / ‖θ0‖ over all weights of both towers, without the temperature; ``images`` and ``texts`` are the
    mean cosine of what the model and the base make of an item of the task. The vectors lie in the store.

    Args:
        folders: checkpoint folder by name of the model; the base is one of them.
        base: name of the base.
        source: a benchmark of rankings that all of them were scored on.
        run: how they were scored; its model is not used.

    Raises:
        BackendError: a checkpoint is missing or broken.
    """
    task = read_task(source)
    assert isinstance(task, Rankings)
    keys, texts = keys_of(task, True), [text for prompts in task.texts for text in prompts]

    def none() -> tuple[Index, Index]:
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def vectors(name: str) -> Dual:
        mine = replace(run, model=f"{name}=open_clip:{folders[name]}")
        model = open_model(mine.model, mine.device, mine.precision)
        found = encode(task.images, keys, texts, none, mine, model)  # type: ignore[arg-type]
        assert isinstance(found, Dual)
        return found

    first = vectors(base)
    found = {}
    for name, folder in folders.items():
        other = first if name == base else vectors(name)
        found[name] = {
            "weights": moved(Path(folders[base]), Path(folder)),
            "images": _cosine(first.images, other.images),
            "texts": _cosine(first.texts, other.texts),
        }
    return found


def moved(base: Path, folder: Path) -> float:
    """Return ‖θ − θ0‖ / ‖θ0‖ over the weights of two checkpoint folders, without the temperature.

    Raises:
        BackendError: they have other weights.
    """
    before, after = (
        {name: value for name, value in read_state(place / WEIGHTS).items() if name not in TEMPERATURE}
        for place in (base, folder)
    )
    if other := sorted(set(before) ^ set(after)):
        raise BackendError(
            f"Checkpoint {str(folder)!r} has other weights than its base {str(base)!r}: {other[0]!r} is in one alone. Train it anew."
        )
    names = [name for name, value in before.items() if value.is_floating_point()]
    squares = [
        ((after[n].double() - before[n].double()).square().sum(), before[n].double().square().sum())
        for n in names
    ]
    changed, whole = (float(sum(parts)) for parts in zip(*squares, strict=True))
    return float((changed / whole) ** 0.5)


def _cosine(left: np.ndarray, right: np.ndarray) -> float:
    """Return the mean cosine of unit vectors (n, d), row by row."""
    return float((left.astype(np.float64) * right).sum(axis=1).mean())
