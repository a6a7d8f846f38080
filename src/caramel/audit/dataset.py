"""A data set, from a file or a frame, is audited with all that is at hand: texts, images, a training corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from caramel.audit.audit import Audit, audit_rows, find_leaks
from caramel.audit.files.inputs import AuditRows
from caramel.benchmarks.image_files import read_encoded_image
from caramel.blind.image.shortcuts import ImageShortcuts, find_image_shortcuts
from caramel.blind.text.attack import Attack
from caramel.blind.text.text_tasks import Source
from caramel.io.image_store import LazySequence
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
    """Return the audit of a data set's texts, of its images where rows have both, and of what is in a corpus.

    Args:
        data_set: the data set.
        scorers: blind scorers, see ``attack.found_scorer``.
        folds: of the cross-validation.
        seed: of folds and draws.
        name: of the data set.
        corpus: texts that n-gram models learn from, instead of the other folds.
        sources: data sets that attackers learn from as well.
        training: file of a training corpus's captions; None: nothing is looked up.
        training_column: of the captions in it.

    Raises:
        BackendError: there is no scorer of that name, or its model cannot be loaded.
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
    return replace(result, images=_find_image_shortcuts(data_set, folds, seed), leaks=leaks)


def clear_timings(result: Audit) -> Audit:
    """Return an audit that does not say how long attackers took, so that equal rows give equal bytes: seconds are 0."""

    def clear_attack_timings(attack: Attack) -> Attack:
        return replace(attack, seconds=dict.fromkeys(attack.seconds, 0.0))

    return replace(
        result,
        attack=clear_attack_timings(result.attack),
        further=[clear_attack_timings(one) for one in result.further],
    )


def _find_image_shortcuts(data_set: AuditRows, folds: int, seed: int) -> ImageShortcuts | None:
    """Return what the images of rows that have both give away; None where no row has both at hand."""
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
