"""Score pairs and their negatives with blind scorers, and compute how often each scorer picks the true caption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.blind.scorer_specs import load_scorer
from caramel.blind.scorers import DECIMALS
from caramel.errors import DataError, format_items
from caramel.interfaces.scorer import Scorer
from caramel.io.files import write_json
from caramel.schemas.columns import SUBTYPES, TYPES
from caramel.schemas.io import build_frame, read_table, write_table_parts
from caramel.schemas.scores import SCORES
from caramel.schemas.stored import ColumnSource
from caramel.utils.arrays import Bools, Floats, Ints, find_indices, iter_texts
from caramel.utils.resampling import CrossValidation
from caramel.utils.stats import share_interval, variance_factor

SCORED = ["negative_id", "pair_id", "type", "subtype", "negative_caption"]  # columns of table ``negatives``
Accuracies = dict[str, dict[str, dict[str, float | int]]]  # scorer -> subset -> figure


def score_pairs(
    pairs: pd.DataFrame,
    negatives: pd.DataFrame,
    *,
    scorers: Sequence[str],
    folds: int,
    seed: int,
    train_only: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return table ``scores``: the scores of each negative and of its positive under each scorer.

    Types are scored one by one, because an attacker knows the type. Scored together, the artifact of ``add``
    (the longer text) would hide the artifacts of ``swap``.

    Args:
        pairs: table ``pairs``.
        negatives: table ``negatives``.
        scorers: blind scorers; see ``scorer_specs``.
        folds: number of cross-validation folds, grouped by image.
        seed: random seed for folds and sampling.
        train_only: table ``negatives`` of the rows that scorers train on, such as the rows that refinement
            rejected. Each type trains on its own rows, or on all rows if it has none, and never on an image
            that is scored. None: scorers train on the other folds.

    Raises:
        BackendError: there is no scorer with that name, or a score is not a number in [0, 1].
        DataError: the pair of a negative is missing.
    """
    scores = score_by_scorer(pairs, negatives, scorers=scorers, folds=folds, seed=seed, train_only=train_only)
    parts = list(scores)
    return pd.concat(parts, ignore_index=True) if parts else build_frame(SCORES, [])


def score_by_scorer(
    pairs: pd.DataFrame,
    negatives: ColumnSource,
    *,
    scorers: Sequence[str],
    folds: int,
    seed: int,
    train_only: pd.DataFrame | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield the rows of ``score_pairs`` one scorer at a time.

    For millions of rows, the scores of all scorers together take gigabytes. Columns of the negatives are taken when they
    are needed.
    """
    rows = Rows.from_tables(pairs, negatives, train_only)
    for name in dict.fromkeys(scorers):
        scores = rows.score_rows(load_scorer(name), folds, seed)
        yield pd.DataFrame(
            {
                "negative_id": negatives[["negative_id"]]["negative_id"].reset_index(drop=True),
                "scorer": name,
                "positive_score": scores[0],
                "negative_score": scores[1],
            }
        )


def write_scores(
    pairs: pd.DataFrame,
    negatives: ColumnSource,
    folder: Path,
    *,
    scorers: Sequence[str],
    folds: int,
    seed: int,
) -> None:
    """Write the table of ``score_pairs`` to scores.parquet and its ``compute_blind_accuracy`` to blind.json.

    Scorers run one at a time.

    Args:
        folder: folder for the two files.
        pairs, negatives, scorers, folds, seed: see ``score_pairs``. The negatives need only the columns
            ``SCORED``, which are taken when they are needed, so that a ``StoredTable`` is never in memory as a whole.
    """
    accuracies: Accuracies = {}
    judged = JudgedRows.from_tables(pairs, negatives)

    def iter_scores() -> Iterator[pd.DataFrame]:
        for part in score_by_scorer(pairs, negatives, scorers=scorers, folds=folds, seed=seed):
            if len(part):  # in the order of the negatives
                accuracies[part["scorer"].iloc[0]] = judged.compute_accuracies(_compute_gaps(part), folds)
            yield part

    write_table_parts(SCORES, iter_scores(), folder / "scores.parquet", by="scorer")
    write_json(folder / "blind.json", accuracies)


def read_by_scorer(path: Path) -> Iterator[pd.DataFrame]:
    """Yield a table ``scores`` one scorer at a time. Errors are those of ``read_table``."""
    for name in read_table(SCORES, path, ["scorer"])["scorer"].unique():
        yield read_table(SCORES, path, only=("scorer", [name]))


class Texts(NamedTuple):
    """Texts of n rows that hold equal texts in memory once.

    Attributes:
        different: the distinct texts.
        number: (n,) index of each row's text in ``different``.
    """

    different: list[str]
    number: Ints

    @classmethod
    def from_column(cls, values: pd.Series[str]) -> Texts:
        """Return the texts of a column."""
        number, different = pd.factorize(values)
        return cls(different.tolist(), number)

    def take_rows(self, rows: Ints) -> list[str]:
        """Return the texts of the given rows."""
        return [self.different[i] for i in self.number[rows].tolist()]


class Rows(NamedTuple):
    """Negatives that are scored, followed by the negatives that scorers train on.

    Attributes:
        caption, image: caption and image of each pair.
        pair: (n,) index of each row's pair.
        negative: negative captions of the rows.
        types: types of the rows.
        judged: number of rows that are scored.
    """

    caption: Texts
    image: Texts
    pair: Ints
    negative: pd.Series[str]
    types: Texts
    judged: int

    @classmethod
    def from_tables(
        cls, pairs: pd.DataFrame, negatives: ColumnSource, train_only: pd.DataFrame | None
    ) -> Rows:
        """Return the rows of the tables.

        Raises:
            DataError: the pair of a negative is missing.
        """
        parts = [negatives] if train_only is None else [negatives, train_only]
        pair = [find_pairs(pairs, part) for part in parts]

        def join_column(name: str) -> pd.Series[str]:
            columns = [part[[name]][name] for part in parts]
            return columns[0] if train_only is None else pd.concat(columns, ignore_index=True)

        return cls(
            Texts.from_column(pairs["caption"]),
            Texts.from_column(pairs["image_id"]),
            np.concatenate(pair),
            join_column("negative_caption"),
            Texts.from_column(join_column("type")),
            len(pair[0]),
        )

    def score_rows(self, scorer: Scorer, folds: int, seed: int) -> Floats:
        """Return the scores of both sides of the scored rows, type by type. (2, n)."""
        train_only = np.arange(len(self.pair)) >= self.judged
        scores = np.full((2, len(self.pair)), np.nan)
        for type_number in np.unique(self.types.number[~train_only]):
            in_type = self.types.number == type_number
            here = np.flatnonzero(
                (in_type & ~train_only)
                | (in_type & train_only if (in_type & train_only).any() else train_only)
            )
            scores[:, here] = scorer(
                self.caption.take_rows(self.pair[here]),
                [*iter_texts(self.negative.iloc[here])],
                CrossValidation(
                    self.image.take_rows(self.pair[here]),
                    folds,
                    seed,
                    train_only[here] if train_only.any() else None,
                ),
            )
        return scores[:, ~train_only].round(DECIMALS)


def find_pairs(pairs: pd.DataFrame, negatives: ColumnSource) -> Ints:
    """Return the index of each negative's pair, (n,).

    Raises:
        DataError: the pair of a negative is missing.
    """
    pair = find_indices(negatives[["pair_id"]]["pair_id"], pairs["pair_id"])
    if (pair < 0).any():
        orphans = negatives[["negative_id"]]["negative_id"][pair < 0]
        raise DataError(
            f"{len(orphans)} of {len(pair)} negatives have no pair:\n{format_items([repr(n) for n in orphans])}\n"
            f"Rerun the stage that made the negatives."
        )
    return pair


def compute_blind_accuracy(
    scores: pd.DataFrame, negatives: pd.DataFrame, *, pairs: pd.DataFrame, folds: int
) -> Accuracies:
    """Return how often each scorer picks the positive, as scorer -> subset -> figures.

    Subsets are ``all`` (over all rows), ``macro`` (mean over the subtypes), each type and each
    subtype. The figures:

    - ``accuracy`` in [0, 1] with ``ci_low``, ``ci_high``: share of rows whose positive scores higher.
      A tie counts as half a row, so a scorer at chance has one half, however many ties it has.
    - ``strict``: the same share, but a tie counts as a miss, as for models.
    - ``n``: number of rows.
    - ``ties``: number of rows with equal scores.

    The 95 % intervals are Wilson intervals at the effective number of rows:

    - Negatives of one image are not independent, so the variance is computed from sums over images.
    - The ``folds`` that made the scores are not independent either, so the variance is multiplied by
      ``variance_factor``.
    """
    judged, accuracies = JudgedRows.from_tables(pairs, negatives), Accuracies()
    for name, rows in scores.groupby("scorer", sort=False):
        at = find_indices(rows["negative_id"], negatives["negative_id"])
        assert (at >= 0).all()
        accuracies[str(name)] = judged.take_rows(at).compute_accuracies(_compute_gaps(rows), folds)
    return accuracies


def _compute_gaps(scores: pd.DataFrame) -> Floats:
    return (scores["positive_score"] - scores["negative_score"]).to_numpy()


class JudgedRows(NamedTuple):
    """What the blind accuracy of n negatives depends on beside their scores.

    Attributes:
        image: (n,) number of each row's image.
        codes: for ``type`` and ``subtype``: the code of each row (n,), and the names by code.
    """

    image: Ints
    codes: Mapping[str, tuple[Ints, pd.Index[str]]]

    @classmethod
    def from_tables(cls, pairs: pd.DataFrame, negatives: ColumnSource) -> JudgedRows:
        """Return the rows of table ``negatives``.

        Raises:
            DataError: the pair of a negative is missing.
        """
        image = pd.factorize(pairs["image_id"], sort=True)[0][find_pairs(pairs, negatives)]
        return cls(
            image, {name: pd.factorize(negatives[[name]][name], sort=True) for name in ("type", "subtype")}
        )

    def take_rows(self, rows: Ints) -> JudgedRows:
        """Return the rows with the given numbers."""
        return JudgedRows(
            self.image[rows], {name: (code[rows], names) for name, (code, names) in self.codes.items()}
        )

    def compute_accuracies(self, gap: Floats, folds: int) -> dict[str, dict[str, float | int]]:
        """Return the figures of one scorer by subset; see ``compute_blind_accuracy``.

        Args:
            gap: (n,) score of each positive minus that of its negative.
            folds: number of folds that made the scores.
        """
        subtype = self.codes["subtype"][0]
        return {
            subset: _compute_metrics(
                gap[inside], subtype[inside], self.image[inside], subset == "macro", variance_factor(folds)
            )
            for subset, inside in _list_subsets(self.codes)
        }


def _list_subsets(codes_by_column: Mapping[str, tuple[Ints, pd.Index[str]]]) -> list[tuple[str, Bools]]:
    """Return the names and masks (n,) of the subsets of n rows that are not empty, in the order of the taxonomy.

    If a type and a subtype have the same name, the mask is the subtype's.

    Args:
        codes_by_column: for ``type`` and ``subtype``: the code of each row (n,), and the names by code.
    """
    whole = np.ones(len(codes_by_column["type"][0]), dtype=np.bool_)
    masks = {"all": whole, "macro": whole}
    for column, usual in (("type", TYPES), ("subtype", SUBTYPES)):
        code, names = codes_by_column[column]
        number = {names[i]: i for i in np.unique(code).tolist()}
        masks |= {name: code == number[name] for name in order_names(number, usual)}
    return [(name, inside) for name, inside in masks.items() if len(inside)]


def order_names(names: Iterable[str], usual: Sequence[str]) -> list[str]:
    """Return the distinct names: first the usual names in their order, then the others by name."""
    distinct = set(names)
    return [*(name for name in usual if name in distinct), *sorted(distinct - set(usual))]


def _compute_metrics(
    gap: Floats, subtype: Ints, image: Ints, macro: bool, factor: float
) -> dict[str, float | int]:
    stratum = np.unique(subtype, return_inverse=True)[1] if macro else np.zeros(len(gap), dtype=np.int64)
    cluster = np.unique(image, return_inverse=True)[1]
    wins, ties = gap > 0, gap == 0
    accuracy, low, high = share_interval(wins + 0.5 * ties, stratum, cluster, factor=factor)
    strict, _, _ = share_interval(wins.astype(float), stratum, cluster, factor=factor)
    shares = {"accuracy": accuracy, "ci_low": low, "ci_high": high, "strict": strict}
    rounded = {name: round(share, DECIMALS) for name, share in shares.items()}
    return {**rounded, "n": len(gap), "ties": int(ties.sum())}
