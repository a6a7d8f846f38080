"""Audit a data set from a file or a frame: its texts, and its images and a training corpus if available."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from caramel.audit.audit import Audit, audit_rows, find_leaks
from caramel.audit.ceilings import compute_query_ceilings
from caramel.audit.files.inputs import AuditRows
from caramel.audit.files.task_rows import list_types
from caramel.benchmarks.image_files import read_encoded_image
from caramel.blind.image.shortcuts import ImageShortcuts, find_image_shortcuts
from caramel.blind.text.attack import Attack
from caramel.blind.text.text_tasks import Source
from caramel.io.image_store import LazySequence
from caramel.registry import BENCHMARKS
from caramel.utils.grouping import group_rows
from caramel.utils.resampling import CrossValidation


def audit_data_set(
    data_set: AuditRows,
    *,
    scorers: Sequence[str],
    folds: int,
    seed: int,
    name: str,
    corpus: Sequence[str] | None,
    sources: Sequence[Source],
    training: Path | None,
    training_column: str = "caption",
) -> Audit:
    """Return the audit of a data set.

    It covers the texts, the images of rows with both images, and contamination with a training corpus.

    Args:
        data_set: the data set.
        scorers: blind scorers; see ``attack.load_attacker``.
        folds: number of cross-validation folds.
        seed: random seed for folds and sampling.
        name: name of the data set.
        corpus: texts that n-gram models train on instead of the other folds.
        sources: further data sets that attackers train on.
        training: file with the captions of a training corpus; None: contamination is not checked.
        training_column: column of the captions in this file.

    Raises:
        BackendError: there is no scorer with that name, or its model cannot be loaded.
        DataError: the rows cannot be attacked, or a file is missing or broken.
    """
    leaks = (
        None if training is None else find_leaks(data_set.rows, training, column=training_column, seed=seed)
    )
    result = audit_rows(
        data_set.rows,
        scorers=scorers,
        folds=folds,
        seed=seed,
        name=name,
        corpus=corpus,
        sources=sources,
    )
    ceilings = [result.ceilings]
    if data_set.queries is not None:
        _, subtypes = list_types(data_set.format, data_set.queries.rows)
        metrics = BENCHMARKS[data_set.format].metrics
        ceilings.append(compute_query_ceilings(data_set.queries, metrics, subtypes))
    return replace(
        result,
        ceilings=pd.concat(ceilings, ignore_index=True),
        images=_find_image_shortcuts(data_set, folds, seed),
        leaks=leaks,
    )


def clear_timings(result: Audit) -> Audit:
    """Return the audit with all seconds set to 0, so that equal rows give equal bytes."""

    def clear_attack_timings(attack: Attack) -> Attack:
        return replace(attack, seconds=dict.fromkeys(attack.seconds, 0.0))

    return replace(
        result,
        attack=clear_attack_timings(result.attack),
        further=[clear_attack_timings(one) for one in result.further],
    )


def _find_image_shortcuts(data_set: AuditRows, folds: int, seed: int) -> ImageShortcuts | None:
    """Return the shortcuts in the images of rows with both images; None if no row has both."""
    rows = data_set.rows.dropna(subset=["image", "negative_image"])
    if rows.empty:
        return None
    files = [
        LazySequence(read_encoded_image, [data_set.images[key] for key in rows[side]])
        for side in ("image", "negative_image")
    ]
    return find_image_shortcuts(
        files[0], files[1], rows, CrossValidation(group_rows(rows).names, folds, seed)
    )
