"""Attack the texts of a data set on each of its tasks, with text-only scorers and all of them combined.

Attackers are the blind scorers, and all of them combined (``stacking``). They train on one of these:

- the other folds of the data set
- another data set: the rows that refinement rejected, the pool that the data set was made from, or an
  unrelated data set

In both cases rows are assigned to folds by groups (``utils.grouping``), over both data sets. All rows of an
image, and near-duplicate captions, are in one fold. No row is scored by an attacker that trained on its
group.
"""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from caramel.blind.scorer_specs import load_scorer
from caramel.blind.scorers import DECIMALS
from caramel.blind.stacking import SEES_ALL, build_pairs, combine_gaps, compute_gaps
from caramel.blind.text.attack_results import Figures, compute_attack_metrics
from caramel.blind.text.text_tasks import P1_N, Source, Task
from caramel.errors import ConfigError, DataError
from caramel.interfaces.scorer import Scorer
from caramel.utils.arrays import Floats
from caramel.utils.grouping import group_rows
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.text import extract_words

BEST = "best_blind_attacker"
FEWEST = 20  # minimum number of images of a type; fewer are too little to train on
MOST = 50_000  # maximum number of rows of a type to attack or train on; larger types are sampled


@dataclass(frozen=True)
class Attack:
    """Results of blind attackers on one task of a data set.

    Attributes:
        rows: the audit rows that were attacked, by pair_id, without types whose rows are all one group.
        gaps: scorer -> (n,) gap in [-1, 1], true caption minus negative, from scorers that did not train on
            the row. ``BEST`` is among them, with 2·P(true) − 1. With two true captions the shape is (n, 2).
        figures: scorer -> figures; see ``compute_attack_metrics``.
        grouped_by: what defines the groups that are never both tested and trained on.
        groups: number of groups of the attacked rows.
        task: the task.
        source: name of the data set that attackers trained on. None: the attacked data set, by
            cross-validation.
        taught: number of training rows, over all folds.
        seconds: scorer -> seconds of training and scoring; ``BEST``: the sum over all scorers. Tasks that
            share training each state all of it.
    """

    rows: pd.DataFrame
    gaps: Mapping[str, Floats]
    figures: Mapping[str, Figures]
    grouped_by: str
    groups: int
    task: Task
    source: str | None
    taught: int
    seconds: Mapping[str, float]

    @property
    def strongest(self) -> str:
        """The attacker with the highest accuracy over all rows; among equals the cheapest.

        It is selected on the reported accuracy, so the figure is optimistic: its interval and p-value are for
        one attacker and do not account for the selection. Claims rest on ``BEST``, which is pre-specified.
        """
        return max(
            self.figures, key=lambda name: (self.figures[name]["overall"]["micro"], -self.seconds[name])
        )


def run_caption_attack(
    rows: pd.DataFrame,
    scorers: Sequence[str],
    *,
    folds: int,
    seed: int,
    corpus: Sequence[str] | None = None,
    source: Source | None = None,
) -> Attack:
    """Return the results of each scorer, and of all combined, on captions and negatives; see ``run_attacks``."""
    (attack,) = run_attacks(rows, scorers, (P1_N,), folds=folds, seed=seed, corpus=corpus, source=source)
    return attack


def run_attacks(
    rows: pd.DataFrame,
    scorers: Sequence[str],
    tasks: Sequence[Task],
    *,
    folds: int,
    seed: int,
    corpus: Sequence[str] | None = None,
    source: Source | None = None,
) -> list[Attack]:
    """Return the results of each scorer, and of all combined, on each task.

    Types are attacked one by one. The order of the rows does not change the result. Scorers train once for
    all tasks, on all pairs of these tasks. So run the tasks of the caption alone in a call of their own.

    Args:
        rows: audit rows: pair_id, image_id, type, subtype, caption, caption2 (or None), negative_caption.
        scorers: see ``load_attacker``; at least one.
        tasks: the tasks. Rows that lack a true caption of the tasks are left out.
        folds: number of cross-validation folds; one less for the cross-validation within the other folds.
        seed: random seed for folds and sampling.
        corpus: texts that n-gram models train on instead of the other folds.
        source: data set to train on. Each type trains on the source's rows of that type, or on all its rows
            if there are none. Source rows whose caption and negative are both in a row of ``rows`` are left
            out. None: attackers train on ``rows``, by cross-validation.

    Raises:
        BackendError: there is no scorer with that name, or its model cannot be loaded.
        ConfigError: no scorer is named.
        DataError: the rows of each type are all one group, or there are no rows to train on.
    """
    if not scorers:
        raise ConfigError("No blind scorer is named. Name at least one, such as 'length'.")
    attackers = {name: load_attacker(name, corpus) for name in dict.fromkeys(scorers)}
    columns = [name for name in ("caption", "caption2") if any(name in task.columns for task in tasks)]
    rows = _sample_rows(rows[rows[columns].notna().all(axis=1)], seed).assign(train_only=False)
    others = (
        None
        if source is None
        else _sample_rows(_select_source_rows(source, rows, columns), seed).assign(train_only=True)
    )
    field = rows if others is None else pd.concat([rows, others], ignore_index=True)
    groups, by = group_rows(field)
    field = field.assign(group=groups)
    if others is None:
        # If all rows of a type are one group, no training rows are left for it.
        field = field[field["group"].groupby(field["type"]).transform("nunique") > 1].reset_index(drop=True)
        if field.empty:
            raise DataError(
                f"The rows cannot be attacked (number of rows: {len(rows)}). The rows of each type are all one group "
                f"(grouped by {by}), so no rows are left to train on. Give more images, or correct the column of the "
                f"images."
            )
    judged = field[~field["train_only"]].reset_index(drop=True)
    possible_tasks = [
        task for task in tasks if not task.sees_all or others is None or others["caption2"].notna().all()
    ]
    gaps, seconds = _attack_by_type(
        judged, field[field["train_only"]], attackers, possible_tasks, folds, seed
    )
    number = np.unique(judged["group"].to_numpy(dtype=str), return_inverse=True)[1]
    attacked_rows = judged.drop(columns=["train_only", "group"])
    return [
        Attack(
            attacked_rows,
            gaps[task],
            # Folds depend on each other only if attackers train on the other folds.
            compute_attack_metrics(
                attacked_rows, gaps[task], number, folds=folds if others is None else None, seed=seed
            ),
            by,
            int(number.max()) + 1,
            task,
            None if source is None else source.name,
            len(judged if others is None else others),
            _sum_seconds(seconds, gaps[task]),
        )
        for task in possible_tasks
    ]


def _sum_seconds(seconds: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    """Return the seconds of the named attackers, and their sum as ``BEST``."""
    seconds_by_name = {name: round(seconds[name], 2) for name in names if name != BEST}
    return {**seconds_by_name, BEST: round(sum(seconds_by_name.values()), 2)}


def has_enough_images(rows: pd.DataFrame) -> bool:
    """Return whether some type of the audit rows has enough images to train on."""
    return bool((rows.groupby("type")["image_id"].nunique() >= FEWEST).any())


def load_attacker(spec: str, corpus: Sequence[str] | None = None) -> Scorer:
    """Return the scorer of a spec (``scorer_specs``); scorers that see both captions are allowed.

    Args:
        spec: name, or name and target.
        corpus: texts that the scorer trains on, if it takes a corpus.

    Raises:
        BackendError: there is no such scorer.
    """
    attacker = load_scorer(spec, both=True)
    if corpus is not None and "corpus" in inspect.signature(attacker).parameters:
        return cast(Scorer, functools.partial(cast(Any, attacker), corpus=corpus))
    return attacker


def _select_source_rows(source: Source, rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a source whose pair is not attacked.

    If the tasks use the paraphrase and some of these rows have one, only the rows with a paraphrase are
    returned.

    Raises:
        DataError: all rows of the source are attacked too.
    """
    attacked_pairs = {
        _normalise_pair(*texts) for texts in zip(rows["caption"], rows["negative_caption"], strict=True)
    }
    texts = zip(source.rows["caption"], source.rows["negative_caption"], strict=True)
    source_rows = source.rows[[_normalise_pair(*pair) not in attacked_pairs for pair in texts]]
    if source_rows.empty:
        raise DataError(
            f"Attackers cannot train on {source.name!r}: the audited data set contains all of its rows (number of rows: "
            f"{len(source.rows)}). Give the rejected rows, the pool that the data set was made from, or another data set."
        )
    second = source_rows["caption2"].notna()
    return source_rows[second] if "caption2" in columns and second.any() else source_rows


def _normalise_pair(caption: str, negative: str) -> tuple[str, str]:
    """Return the words of both texts; formatting does not change them."""
    first, second = (" ".join(extract_words(text)) for text in (caption, negative))
    return first, second


def _sample_rows(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the rows, sorted by pair_id; types of more than ``MOST`` rows are sampled by whole images."""
    parts = []
    for type_name in rows["type"].unique():
        part = rows[rows["type"] == type_name]
        if len(part) > MOST:
            sizes = part["image_id"].value_counts().sort_index()
            sizes = sizes.iloc[np.argsort(compute_stable_keys(sizes.index.tolist(), seed), kind="stable")]
            within = sizes.cumsum() <= MOST
            within.iloc[0] = True  # the first image may have more than ``MOST`` rows
            part = part[part["image_id"].isin(sizes.index[within])]
        parts.append(part)
    sampled = pd.concat(parts) if parts else rows
    return sampled.sort_values("pair_id", ignore_index=True)


def _attack_by_type(
    judged: pd.DataFrame,
    train_only: pd.DataFrame,
    attackers: Mapping[str, Scorer],
    tasks: Sequence[Task],
    folds: int,
    seed: int,
) -> tuple[dict[Task, dict[str, Floats]], Mapping[str, float]]:
    """Return the gaps of the tested rows by task and attacker, and seconds by attacker.

    The gaps are (n,), or (n, t) for t true captions.
    """
    named = {task: [*attackers, *(SEES_ALL if task.sees_all else ()), BEST] for task in tasks}
    gaps = {
        task: {name: np.zeros((len(judged), len(task.columns))) for name in names}
        for task, names in named.items()
    }
    seconds: dict[str, float] = defaultdict(float)
    for type_name in judged["type"].unique():
        here = (judged["type"] == type_name).to_numpy()
        same = train_only[train_only["type"] == type_name]
        rows = pd.concat([judged[here], train_only if same.empty else same], ignore_index=True)
        type_gaps, spent = _attack_type(rows, attackers, tasks, folds, seed)
        for name, took in spent.items():
            seconds[name] += took
        for task, of_task in type_gaps.items():
            for name, values in of_task.items():
                gaps[task][name][here] = values.round(DECIMALS)
    single = {task: len(task.columns) == 1 for task in tasks}
    return {
        t: {name: g[:, 0] if single[t] else g for name, g in type_gaps.items()}
        for t, type_gaps in gaps.items()
    }, seconds


def _attack_type(
    rows: pd.DataFrame, attackers: Mapping[str, Scorer], tasks: Sequence[Task], folds: int, seed: int
) -> tuple[dict[Task, dict[str, Floats]], Mapping[str, float]]:
    """Return the gaps of one type's tested rows by task and attacker, and seconds by attacker.

    The gaps are (n, t) for t true captions.
    """
    columns = [name for name in ("caption", "caption2") if any(name in task.columns for task in tasks)]
    pairs = build_pairs(rows, columns)
    seeing = SEES_ALL if any(task.sees_all for task in tasks) else {}
    scorer_gaps = compute_gaps(pairs, {**attackers, **seeing}, folds=folds, seed=seed)
    judged = ~pairs["train_only"].to_numpy(dtype=bool)
    result = {}
    for task in tasks:
        use = pairs["column"].isin(task.columns).to_numpy()
        names = [name for name in scorer_gaps.names if task.sees_all or name not in SEES_ALL]
        best = combine_gaps(scorer_gaps, pairs, use, names, seed=seed)
        of_task = {name: scorer_gaps.alone[name] for name in names} | {BEST: best}
        # Pairs are ordered by caption column, then in the order of the rows.
        shape = (len(task.columns), -1)
        result[task] = {name: values[use & judged].reshape(shape).T for name, values in of_task.items()}
    return result, scorer_gaps.seconds
