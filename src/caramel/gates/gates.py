"""Run the two gates of the pipeline: build the table of each suite and validate it.

A suite validates one table. A condition on two tables (a negative and its caption, two splits) first gets one
small table that joins them. The names below are the suites in ``expectations/``.
"""

from __future__ import annotations

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
from caramel.schemas.io import build_frame
from caramel.schemas.stored import ColumnSource
from caramel.schemas.training import TRAINING
from caramel.utils.acceptance import Acceptance
from caramel.utils.arrays import BLOCK, Floats, TextIndex, find_indices
from caramel.utils.grouping import merge_groups

OF_PAIR = ("image_id", "caption")  # columns of table ``pairs`` that its negatives and its paraphrase get
MISSING_PAIR = "missing_pair"
OF_REJECTED = ", learned from rejected rows"  # suffix of a scorer's name


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
        pa.default_memory_pool().release_unused()  # the suite's table is gone; Arrow would keep its memory for reuse
    if failures:
        raise GateError("\n\n".join(failures))
    return summaries


def build_judged_captions(
    pairs: ColumnSource,
    negatives: ColumnSource,
    scores: Iterable[pd.DataFrame],
    rejected: pd.DataFrame,
    *,
    exempt: Sequence[str],
    folds: int,
    seed: int,
) -> pd.DataFrame:
    """Return the negatives of the types that are not exempt, with captions and the gaps of every blind scorer.

    Each scorer has the gaps after training on the other folds. If there are rejected rows, it also has the gaps
    after training on these; see ``validate_captions``.
    """

    is_judged = ~negatives[["type"]]["type"].isin(list(exempt))

    def take_judged(names: list[str]) -> pd.DataFrame:
        """Return columns of the judged rows; all rows of only one column are in memory at a time."""
        return pd.DataFrame({name: negatives[[name]][name][is_judged] for name in names})

    ids = take_judged(["negative_id"])["negative_id"]
    columns = build_gap_columns(ids, scores)
    if len(rejected):
        names = [column.removesuffix(GAP) for column in columns]
        scored = score_by_scorer(
            pairs[["pair_id", "image_id", "caption"]],
            take_judged(SCORED),
            scorers=names,
            folds=folds,
            seed=seed,
            train_only=rejected,
        )
        columns |= build_gap_columns(
            ids, (part.assign(scorer=part["scorer"] + OF_REJECTED) for part in scored)
        )
    del ids
    return add_captions(take_judged(SCORED), pairs).assign(**columns)


@dataclass(frozen=True)
class RowsWithCaptions:
    """Rows that have a pair, with the columns of ``add_captions``. Columns are read when they are taken."""

    rows: ColumnSource
    pairs: ColumnSource

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [*self.rows.columns, *OF_PAIR, MISSING_PAIR]

    def __getitem__(self, names: list[str], /) -> pd.DataFrame:
        """Return the columns with these names."""
        stored = set(self.rows.columns)
        if stored.issuperset(names):
            return self.rows[names]
        needed = [name for name in names if name in stored]
        return add_captions(self.rows[list(dict.fromkeys([*needed, "pair_id"]))], self.pairs)[names]


def add_captions(rows: pd.DataFrame, pairs: ColumnSource) -> pd.DataFrame:
    """Return the rows with their pair's ``caption`` and ``image_id``, and ``missing_pair``.

    ``caption`` and ``image_id`` are categorical: a pair has many negatives, and its texts are in memory once.
    ``missing_pair`` is the row's ``pair_id`` if that pair is missing, else null.
    """
    texts = pairs[["pair_id", *OF_PAIR]]
    at = find_indices(rows["pair_id"], texts["pair_id"])
    of_pair = {}
    for column in OF_PAIR:
        code, different = pd.factorize(texts[column].to_numpy(object))
        of_pair[column] = pd.Categorical.from_codes(
            np.append(code, -1)[at], pd.Index(different, dtype=object)
        )
    return rows.assign(**of_pair, **{MISSING_PAIR: rows["pair_id"].where(at < 0)})


def expand_negatives(training: pd.DataFrame) -> pd.DataFrame:
    """Return a training set with one row per negative, numbered from 0 within its pair by ``place``.

    A pair without negatives gives one row, whose negative is null.
    """
    rows = training.explode(["negative_captions", "negative_image_ids", "subtypes"], ignore_index=True)
    return rows.assign(place=rows.groupby("pair_id").cumcount())


def list_image_uses(instances: pd.DataFrame, trained: pd.DataFrame, images: pd.DataFrame) -> pd.DataFrame:
    """Return one row per distinct use of an image: ``image_id``, ``split``, ``used_in``, ``missing_image``.

    ``missing_image`` is the ``image_id`` if table ``images`` lacks it, else null.
    """
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
    """Return the images with ``image_ok`` and ``perceptual_hash``.

    ``image_ok`` says whether the file decodes to the size in its row. Only photographs have a perceptual hash.

    Raises:
        DataError: a shard is missing, or a file in it does not match the image's SHA-256.
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
    """Return whether an encoded file decodes to an image of this size, and its hash if ``hashed``."""
    try:
        image = decode_image(data, "")
    except DataError:
        return False, None
    return image.size == size, compute_perceptual_hash(image) if hashed else None


def build_image_attack_tables(rows: pd.DataFrame, scores: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of the suites on image-only attackers: suite -> rows with their gaps.

    - ``attacked_images``: all rows. Column ``attacked`` is null if the type had too few instances to attack.
    - ``blind_images``: the attacked rows, if there are any. Column ``tied`` groups rows that share an image or a
      caption.
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
    """Return the rows of the types that are not exempt, each with its gap under every blind scorer.

    A scorer NAME gives the column ``NAME_gap``: positive score minus negative score; NaN: not scored.
    """
    judged = rows[~rows["type"].isin(list(exempt))]
    return judged.assign(**build_gap_columns(judged["negative_id"], [scores]))


def build_gap_columns(names: pd.Series[str], scores: Iterable[pd.DataFrame]) -> dict[str, Floats]:
    """Return the columns that ``add_score_gaps`` adds for the negatives in ``names``, (n,) each.

    Args:
        names: n values of ``negative_id``.
        scores: table ``scores``, in any number of parts. A scorer's scores are all in one part.
    """
    columns = {}
    for part in scores:
        gaps = (part["positive_score"] - part["negative_score"]).to_numpy(np.float64)
        numbers, scorers = pd.factorize(part["scorer"], sort=True)
        for number, name in enumerate(scorers):
            here = numbers == number
            index = TextIndex(part["negative_id"] if here.all() else part["negative_id"][here])
            # In blocks: all names at a time would be copied to be compared.
            blocks = (names.iloc[start : start + BLOCK] for start in range(0, max(1, len(names)), BLOCK))
            at = np.concatenate([index.find_indices(block) for block in blocks])
            columns[f"{name}{GAP}"] = np.append(gaps[here], np.nan)[at]
    return columns
