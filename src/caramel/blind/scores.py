"""Score pairs and their negatives with blind scorers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from caramel.blind.blind_accuracy import Accuracies, JudgedRows, compute_gaps
from caramel.blind.scored_rows import Rows
from caramel.blind.scorer_specs import load_scorer
from caramel.io.files import write_json
from caramel.schemas.io import build_frame, read_table, write_table_parts
from caramel.schemas.scores import SCORES
from caramel.schemas.stored import ColumnSource

SCORED = ["negative_id", "pair_id", "type", "subtype", "negative_caption"]  # columns of table ``negatives``


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
                accuracies[part["scorer"].iloc[0]] = judged.compute_accuracies(compute_gaps(part), folds)
            yield part

    write_table_parts(SCORES, iter_scores(), folder / "scores.parquet", by="scorer")
    write_json(folder / "blind.json", accuracies)


def read_by_scorer(path: Path) -> Iterator[pd.DataFrame]:
    """Yield a table ``scores`` one scorer at a time. Errors are those of ``read_table``."""
    for name in read_table(SCORES, path, ["scorer"])["scorer"].unique():
        yield read_table(SCORES, path, only=("scorer", [name]))
