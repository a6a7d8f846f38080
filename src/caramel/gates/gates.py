"""Run the two gates of the pipeline: build the table of each suite and validate it.

A suite validates one table. A condition on two tables (a negative and its caption, two splits) first gets one
small table that joins them (``caption_tables.py``, ``benchmark_tables.py``). The names below are the suites in
``expectations/``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.errors import GateError
from caramel.gates.benchmark_tables import (
    add_image_checks,
    build_image_attack_tables,
    expand_negatives,
    list_image_uses,
)
from caramel.gates.caption_tables import RowsWithCaptions, add_score_gaps, build_judged_captions
from caramel.gates.near_duplicate_images import find_near_duplicates
from caramel.gates.split_leakage import list_text_uses
from caramel.gates.suite_summaries import SuiteSummary
from caramel.gates.suites import release_memory, validate_table
from caramel.io.image_store import ImageStore
from caramel.schemas.io import build_frame
from caramel.schemas.stored import ColumnSource
from caramel.schemas.training import TRAINING
from caramel.utils.acceptance import Acceptance


@dataclass(frozen=True)
class BlindThresholds:
    """Thresholds of the suites on blind accuracy.

    Attributes:
        blind_tolerance: how far above 0.5 the accuracy of a text-only scorer may be, in [0, 0.5].
        acceptance: which verdicts pass; see ``caramel.utils.acceptance``.
        blind_exempt: types of negatives that the suites leave out.
    """

    blind_tolerance: float
    acceptance: Acceptance
    blind_exempt: Sequence[str]

    def build_parameters(self, folds: int) -> dict[str, Any]:
        """Return the parameters of the suites, for scores from a cross-validation with ``folds`` folds."""
        return {
            "max_blind_accuracy": 0.5 + self.blind_tolerance,
            "blind_acceptance": self.acceptance,
            "blind_folds": folds,
        }


@dataclass(frozen=True)
class CaptionThresholds(BlindThresholds):
    """Thresholds of the gate on captions.

    Attributes:
        min_pairs: minimum number of pairs of a data set, at least 1; see suite ``pairs``.
    """

    min_pairs: int


@dataclass(frozen=True)
class BenchmarkThresholds(BlindThresholds):
    """Thresholds of the gate on the benchmark.

    Attributes:
        image_tolerance: how far above 0.5 the accuracy of an image-only attacker may be, in [0, 0.5].
        image_exempt: subtypes that suite ``blind_images`` leaves out.
        max_subtype_share: largest share of a subtype among the instances of a split, in (0, 1]; see suite
            ``instances``.
        min_alpha: least agreement of people, in [0, 1]; see suite ``agreement``.
        min_pairable: least number of items that two of them answered.
    """

    image_tolerance: float
    image_exempt: Sequence[str]
    max_subtype_share: float
    min_alpha: float
    min_pairable: int


def validate_captions(
    pairs: ColumnSource,
    negatives: ColumnSource,
    paraphrases: ColumnSource,
    scores: Iterable[pd.DataFrame],
    rejected: pd.DataFrame,
    *,
    thresholds: CaptionThresholds,
    folds: int,
    seed: int,
    folder: Path,
    docs_folder: Path,
) -> list[SuiteSummary]:
    """Return the summaries of the suites on the captions.

    Args:
        pairs, negatives, paraphrases: tables of those names. Their columns are taken when a suite needs them, so
            that a ``StoredTable`` is never in memory as a whole.
        scores: scores of the blind scorers, for at least the negatives, in any number of parts. One part is in
            memory at a time.
        rejected: table ``negatives`` of the rows that refinement left out. They can give away the rows that were
            kept, so each scorer is also trained on them.
        thresholds: thresholds of the gate.
        folds: number of folds that the scores come from; the width of the intervals depends on it.
        seed: seed of folds and sampling of the scorers that learn from rejected rows.
        folder: folder of the suites.
        docs_folder: folder of the data docs.

    Raises:
        GateError: a suite failed.
    """
    parameters = {"min_pairs": thresholds.min_pairs, **thresholds.build_parameters(folds)}
    looked_at: dict[str, Callable[[], ColumnSource]] = {
        "pairs": lambda: pairs,
        "negatives": lambda: RowsWithCaptions(negatives, pairs),
        "paraphrases": lambda: RowsWithCaptions(paraphrases, pairs),
        "text_uses": lambda: list_text_uses(pairs, negatives, paraphrases),
        "blind_captions": lambda: build_judged_captions(
            pairs, negatives, scores, rejected, exempt=thresholds.blind_exempt, folds=folds, seed=seed
        ),
    }
    return _validate_all(looked_at, parameters, folder, docs_folder)


def validate_benchmark(
    instances: pd.DataFrame,
    training: pd.DataFrame | None,
    images: pd.DataFrame,
    pictures: ImageStore,
    scores: pd.DataFrame,
    image_scores: pd.DataFrame,
    *,
    agreement: pd.DataFrame,
    thresholds: BenchmarkThresholds,
    folds: int,
    image_folds: int,
    folder: Path,
    docs_folder: Path,
) -> list[SuiteSummary]:
    """Return the summaries of the suites on the benchmark and its training set.

    Args:
        instances: table ``instances``, the benchmark.
        training: table ``training``, its training set; None: it has none.
        images: table ``images``, with every image that these two name.
        pictures: files of these images.
        scores: scores of the blind scorers, for at least the ids of the instances.
        image_scores: scores of the image-only attackers. An instance without a score is of a type with too few
            instances to attack.
        agreement: agreement of the people who chose the images, one row per task; without rows, no one did.
        thresholds: thresholds of the gate.
        folds: number of folds that ``scores`` come from; the width of the intervals depends on it.
        image_folds: number of folds that ``image_scores`` come from.
        folder: folder of the suites.
        docs_folder: folder of the data docs.

    Raises:
        GateError: a suite failed.
        DataError: a shard of the images is missing, or a file in it does not match its SHA-256.
    """
    named = instances.assign(negative_id=instances["instance_id"])
    trained = expand_negatives(build_frame(TRAINING, []) if training is None else training)
    opened = add_image_checks(images, pictures)
    may_attack = ~named["subtype"].isin(list(thresholds.image_exempt))
    attacked = build_image_attack_tables(named[may_attack], image_scores)
    looked_at: dict[str, Callable[[], ColumnSource]] = {
        "instances": lambda: instances,
        **({} if training is None else {"training": lambda: trained}),
        "image_uses": lambda: list_image_uses(instances, trained, images),
        "images": lambda: opened,
        "equal_pictures": lambda: find_near_duplicates(opened),
        "blind_benchmark": lambda: add_score_gaps(named, scores, exempt=thresholds.blind_exempt),
        **{name: partial(pd.DataFrame, rows) for name, rows in attacked.items()},
        **({"agreement": lambda: agreement} if len(agreement) else {}),
    }
    parameters = {
        "max_subtype_share": thresholds.max_subtype_share,
        **thresholds.build_parameters(folds),
        "max_image_accuracy": 0.5 + thresholds.image_tolerance,
        "image_folds": image_folds,
        "min_alpha": thresholds.min_alpha,
        "min_pairable": thresholds.min_pairable,
    }
    return _validate_all(looked_at, parameters, folder, docs_folder)


def _validate_all(
    looked_at: Mapping[str, Callable[[], ColumnSource]],
    parameters: Mapping[str, Any],
    folder: Path,
    docs_folder: Path,
) -> list[SuiteSummary]:
    """Run every suite and return the summaries.

    A failure is raised only after the last suite, so that one run of the stage shows all failures.

    Args:
        looked_at: suite -> function that builds its table. Tables are built in turn: one is in memory at a time.
        parameters: values of the suites' ``$PARAMETER`` entries.
        folder: folder of the suites.
        docs_folder: folder of the data docs.

    Raises:
        GateError: at least one suite failed.
    """
    summaries, failures = [], []
    for name, make in looked_at.items():
        suite = folder / f"{name}.json"
        try:
            summaries.append(validate_table(make(), suite, docs_folder=docs_folder, parameters=parameters))
        except GateError as error:
            failures.append(str(error))
        release_memory()  # the suite's table is no longer needed
    if failures:
        raise GateError("\n\n".join(failures))
    return summaries
