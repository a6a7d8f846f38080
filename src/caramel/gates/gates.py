"""The two gates of the pipeline: which tables are made for which suite.

A suite looks at one table. What concerns two (a negative and its caption, a split and another)
is put into one small table first; the names below are the suites in ``expectations/``.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from caramel.blind.scores import SCORED, score_by_scorer
from caramel.errors import DataError, GateError
from caramel.gates.blind_expectation import GAP
from caramel.gates.near_duplicate_images import PHOTOGRAPHS, compute_perceptual_hash, find_near_duplicates
from caramel.gates.split_leakage import list_text_uses
from caramel.gates.suites import SuiteSummary, validate_table
from caramel.io.image_codec import decode_image
from caramel.io.image_store import ImageStore
from caramel.utils.acceptance import Acceptance
from caramel.utils.arrays import Floats, find_indices
from caramel.utils.grouping import merge_groups

MANY = 100_000  # rows for which it pays to look for what is no longer used: half a second
OF_REJECTED = ", learned from rejected rows"  # ending of a scorer's name


@dataclass(frozen=True)
class BlindThresholds:
    """What the suites on blind accuracy let pass.

    Attributes:
        blind_tolerance: how far above 0.5 the accuracy of a text-only scorer may be, in [0, 0.5].
        acceptance: what passes; see ``caramel.utils.acceptance``.
        blind_exempt: types that are left out.
    """

    blind_tolerance: float
    acceptance: Acceptance
    blind_exempt: Sequence[str]

    def build_parameters(self, folds: int) -> dict[str, Any]:
        """Return the parameters of the suites, for scores that were made in so many folds."""
        return {
            "max_blind_accuracy": 0.5 + self.blind_tolerance,
            "blind_acceptance": self.acceptance,
            "blind_folds": folds,
        }


@dataclass(frozen=True)
class CaptionThresholds(BlindThresholds):
    """What the gate on captions lets pass.

    Attributes:
        min_pairs: fewest pairs of a data set, at least 1; see suite ``pairs``.
    """

    min_pairs: int


@dataclass(frozen=True)
class BenchmarkThresholds(BlindThresholds):
    """What the gate on the benchmark lets pass.

    Attributes:
        image_tolerance: how far above 0.5 the accuracy of an attacker that sees images alone may be, in [0, 0.5].
        image_exempt: subtypes that suite ``blind_images`` leaves out.
        max_subtype_share: largest share of a subtype among the instances of a split, in (0, 1]; see suite ``instances``.
    """

    image_tolerance: float
    image_exempt: Sequence[str]
    max_subtype_share: float


def validate_captions(
    pairs: pd.DataFrame,
    negatives: pd.DataFrame,
    paraphrases: pd.DataFrame,
    scores: Iterable[pd.DataFrame],
    rejected: pd.DataFrame,
    *,
    thresholds: CaptionThresholds,
    folds: int,
    seed: int,
    folder: Path,
    docs_folder: Path,
) -> list[SuiteSummary]:
    """Return what the suites on the captions in ``folder`` found.

    Args:
        pairs, negatives, paraphrases: tables of those names.
        scores: of the blind scorers, for the negatives at least, in any parts; one is in memory at a time.
        rejected: table ``negatives`` of the rows that refinement left out: they can give away those that were kept, and
            each scorer is asked as it learns from them too.
        thresholds: what passes.
        folds: in which the scores were made; intervals are as wide as these ask.
        seed: of the folds and draws of those that learn from rejected rows.
        folder: of the suites.
        docs_folder: of the data docs.

    Raises:
        GateError: a suite failed.
    """
    parameters = {"min_pairs": thresholds.min_pairs, **thresholds.build_parameters(folds)}
    looked_at: dict[str, Callable[[], pd.DataFrame]] = {
        "pairs": lambda: pairs,
        "negatives": lambda: add_captions(negatives, pairs),
        "paraphrases": lambda: add_captions(paraphrases, pairs),
        "text_uses": lambda: list_text_uses(pairs, negatives, paraphrases),
        "blind_captions": lambda: build_judged_captions(
            pairs, negatives, scores, rejected, exempt=thresholds.blind_exempt, folds=folds, seed=seed
        ),
    }
    return _validate_all(looked_at, parameters, folder, docs_folder)


def validate_benchmark(
    instances: pd.DataFrame,
    training: pd.DataFrame,
    images: pd.DataFrame,
    pictures: ImageStore,
    scores: pd.DataFrame,
    image_scores: pd.DataFrame,
    *,
    thresholds: BenchmarkThresholds,
    folds: int,
    image_folds: int,
    folder: Path,
    docs_folder: Path,
) -> list[SuiteSummary]:
    """Return what the suites on the benchmark and its training set in ``folder`` found.

    Args:
        instances: the benchmark.
        training: its training set.
        images: every image that they name.
        pictures: the files of these.
        scores: of the blind scorers, for the instances' ids at least.
        image_scores: of the attackers that see pictures alone; an instance without is of a type too few to attack.
        thresholds: what passes.
        folds: in which the scores were made; intervals are as wide as these ask.
        image_folds: in which the scores of pictures were made.
        folder: of the suites.
        docs_folder: of the data docs.

    Raises:
        GateError: a suite failed.
        DataError: a shard of the images is missing, or holds another file than the one that its SHA-256 says.
    """
    named = instances.assign(negative_id=instances["instance_id"])
    trained = expand_negatives(training)
    opened = add_image_checks(images, pictures)
    may_attack = ~named["subtype"].isin(list(thresholds.image_exempt))
    attacked = build_image_attack_tables(named[may_attack], image_scores)
    looked_at: dict[str, Callable[[], pd.DataFrame]] = {
        "instances": lambda: instances,
        "training": lambda: trained,
        "image_uses": lambda: list_image_uses(instances, trained, images),
        "images": lambda: opened,
        "equal_pictures": lambda: find_near_duplicates(opened),
        "blind_benchmark": lambda: add_score_gaps(named, scores, exempt=thresholds.blind_exempt),
        **{name: partial(pd.DataFrame, rows) for name, rows in attacked.items()},
    }
    parameters = {
        "max_subtype_share": thresholds.max_subtype_share,
        **thresholds.build_parameters(folds),
        "max_image_accuracy": 0.5 + thresholds.image_tolerance,
        "image_folds": image_folds,
    }
    return _validate_all(looked_at, parameters, folder, docs_folder)


def _validate_all(
    looked_at: Mapping[str, Callable[[], pd.DataFrame]],
    parameters: Mapping[str, Any],
    folder: Path,
    docs_folder: Path,
) -> list[SuiteSummary]:
    """Run every suite, then stop if any failed: one run of the stage shows all that is wrong.

    Args:
        looked_at: suite -> its table, which is made when its turn comes: one is in memory at a time.
    """
    summaries, failures = [], []
    for name, make in looked_at.items():
        rows, suite = make(), folder / f"{name}.json"
        try:
            summaries.append(validate_table(rows, suite, docs_folder=docs_folder, parameters=parameters))
        except GateError as error:
            failures.append(str(error))
        many = len(rows) > MANY
        del rows
        if many:
            gc.collect()  # Great Expectations holds the rows in cycles
        pa.default_memory_pool().release_unused()  # else kept to be used again, beside Python's own memory
    if failures:
        raise GateError("\n\n".join(failures))
    return summaries


def build_judged_captions(
    pairs: pd.DataFrame,
    negatives: pd.DataFrame,
    scores: Iterable[pd.DataFrame],
    rejected: pd.DataFrame,
    *,
    exempt: Sequence[str],
    folds: int,
    seed: int,
) -> pd.DataFrame:
    """Return the negatives that are not of the exempt types, with their captions and the gap of every blind scorer.

    As it learned from the other folds, and as it learns from the rows that were rejected, if there are any; see
    ``validate_captions``.
    """
    judged = negatives.loc[~negatives["type"].isin(list(exempt)), SCORED]
    columns = build_gap_columns(judged["negative_id"], scores)
    if len(rejected):
        names = [column.removesuffix(GAP) for column in columns]
        scored = score_by_scorer(pairs, judged, scorers=names, folds=folds, seed=seed, train_only=rejected)
        columns |= build_gap_columns(
            judged["negative_id"], (part.assign(scorer=part["scorer"] + OF_REJECTED) for part in scored)
        )
    return add_captions(judged, pairs).assign(**columns)


def add_captions(rows: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with their pair's ``caption`` and ``image_id``, and ``missing_pair``.

    The last is the pair that is not there; it is empty where the pair is.
    """
    at = find_indices(rows["pair_id"], pairs["pair_id"])
    missing = at < 0
    of_pair = {
        column: pd.Series(pairs[column].array.take(at, allow_fill=True), index=rows.index)
        for column in ("caption", "image_id")
    }
    return rows.assign(**of_pair, missing_pair=rows["pair_id"].where(missing))


def expand_negatives(training: pd.DataFrame) -> pd.DataFrame:
    """Return a training set with a row for each negative, with its ``place`` from 0; of no negative at all, one that is empty."""
    rows = training.explode(["negative_captions", "negative_image_ids", "subtypes"], ignore_index=True)
    return rows.assign(place=rows.groupby("pair_id").cumcount())


def list_image_uses(instances: pd.DataFrame, trained: pd.DataFrame, images: pd.DataFrame) -> pd.DataFrame:
    """Return one row per distinct use of an image: image_id, split, used_in, missing_image."""
    uses = [images[["image_id", "split"]].assign(used_in="images")]
    for name, rows, column in (
        ("instances", instances, "image_id"),
        ("instances", instances, "negative_image_id"),
        ("training", trained, "image_id"),
        ("training", trained, "negative_image_ids"),
    ):
        use = rows[[column, "split"]].rename(columns={column: "image_id"})
        uses.append(use.dropna(subset="image_id").assign(used_in=f"{name}.{column}"))
    table = pd.concat(uses, ignore_index=True).drop_duplicates(ignore_index=True)
    known = table["image_id"].isin(images["image_id"])
    return table.assign(missing_image=table["image_id"].mask(known))


def add_image_checks(images: pd.DataFrame, image_store: ImageStore) -> pd.DataFrame:
    """Return the images with ``image_ok``: it decodes to its row's size, and photographs with ``perceptual_hash``.

    Raises:
        DataError: a shard is missing, or holds another file than the one that an image's SHA-256 says.
    """
    rows = images[["image_id", "width", "height", "source"]].itertuples(index=False, name=None)
    checks = [
        _inspect_image(image_store.read_verified(name), (width, height), source == PHOTOGRAPHS)
        for name, width, height, source in rows
    ]
    opened = pd.DataFrame(checks, index=images.index, columns=["image_ok", "perceptual_hash"])
    return images.assign(
        image_ok=opened["image_ok"].astype("bool"), perceptual_hash=opened["perceptual_hash"]
    )


def _inspect_image(data: bytes, size: tuple[int, int], hashed: bool) -> tuple[bool, bytes | None]:
    """Return whether an encoded file decodes to a picture of a size, and the hash of that if it is asked for."""
    try:
        image = decode_image(data, "")
    except DataError:
        return False, None
    return image.size == size, compute_perceptual_hash(image) if hashed else None


def build_image_attack_tables(rows: pd.DataFrame, scores: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows for the suites on attackers that see pictures alone, each with its scores.

    ``attacked_images`` holds all rows, with ``attacked``, which is empty where a type was too few to attack;
    ``blind_images`` those that were attacked, if any, with ``tied``: rows that share an image or a caption.
    """
    scored = add_score_gaps(rows, scores, exempt=())
    attacked = rows["negative_id"].where(rows["negative_id"].isin(scores["negative_id"]))
    suite_tables = {"attacked_images": scored.assign(attacked=attacked)}
    if attacked.notna().any():
        judged = scored[attacked.notna()]
        ties = merge_groups(
            judged["image_id"].tolist(), judged["negative_image_id"].tolist(), judged["caption"].tolist()
        )
        suite_tables["blind_images"] = judged.assign(tied=ties)
    return suite_tables


def add_score_gaps(rows: pd.DataFrame, scores: pd.DataFrame, *, exempt: Sequence[str]) -> pd.DataFrame:
    """Return the rows that are not of the exempt types, each with its gap under every blind scorer.

    A scorer NAME gives the column ``NAME_gap``: positive less negative score; NaN: not scored.
    """
    judged = rows[~rows["type"].isin(list(exempt))]
    return judged.assign(**build_gap_columns(judged["negative_id"], [scores]))


def build_gap_columns(names: pd.Series[str], scores: Iterable[pd.DataFrame]) -> dict[str, Floats]:
    """Return the columns of ``with_scores`` for negatives of those names, (n,) each.

    Args:
        scores: table ``scores``, in any parts of which no two have scores of one scorer.
    """
    columns = {}
    for part in scores:
        for name, scored in part.groupby("scorer", sort=True):
            gaps = (scored["positive_score"] - scored["negative_score"]).to_numpy(np.float64)
            columns[f"{name}{GAP}"] = np.append(gaps, np.nan)[find_indices(names, scored["negative_id"])]
    return columns
