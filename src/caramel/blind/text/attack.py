"""Attacks on a data set's texts, on each of its tasks.

Attackers are the blind scorers, and all of them together (``stacking``). They learn on the other folds of the data
set, or on another one: what refinement threw away, the pool that it was made from, or data sets that have nothing to do
with it. Either way rows are dealt into folds by groups (``grouping``) over both: an image, or a near-duplicate
caption, is in one fold, and no row of a group is judged by what learned from it.
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
FEWEST = 20  # images of one type; of fewer there is too little to learn from
MOST = 50_000  # rows of one type that are attacked, or learned from; of larger types a random part is


@dataclass(frozen=True)
class Attack:
    """What blind attackers make of a data set on one task.

    Attributes:
        rows: the audit rows that were attacked, by pair_id; without types whose rows are all one group.
        gaps: scorer -> (n,) gap in [-1, 1], true caption less negative, from scorers that did not learn on it; ``BEST``
            is one of them, with 2·P(true) − 1. Where two captions are true it is (n, 2).
        figures: scorer -> figures, see ``attack_figures``.
        grouped_by: what was never both judged and learned from.
        groups: number of groups of the attacked rows.
        task: what was asked.
        source: name of the data set that was learned from; None: the attacked one, by cross-validation.
        taught: number of rows that were learned from, of all folds together.
        seconds: scorer -> what it took to learn and to score; ``BEST``: all together. Tasks that share what is learned
            state it each.
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
        """The attacker that is right most often over all rows; of equal ones the cheapest.

        It is chosen by the accuracy that is then shown of it, which flatters it: its interval and p-value are those of one
        attacker and do not count the choice. What is claimed is claimed of ``BEST``, which was named beforehand.
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
    """Return what each scorer, and all together, make of captions and negatives; see ``attacks``."""
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
    """Return what each scorer, and all together, make of the audit rows, on each task.

    Types are attacked one by one. The order of the rows changes nothing. What scorers learn they learn once for all
    tasks, from all their pairs; so the tasks of the caption alone are best asked for by themselves.

    Args:
        rows: audit rows: pair_id, image_id, type, subtype, caption, caption2 (or None), negative_caption.
        scorers: see ``found_scorer``; at least one.
        tasks: what is asked. Rows without one of their true captions are left out.
        folds: of the cross-validation; one less within the other folds.
        seed: of folds and draws.
        corpus: texts that language models learn from, instead of the other folds.
        source: data set to learn from, each type on its rows of that type, or on all where it has none. None: ``rows``
            themselves, by cross-validation. Its rows with a caption and a negative of ``rows`` are left out.

    Raises:
        BackendError: there is no scorer of that name, or its model cannot be loaded.
        ConfigError: no scorer is named.
        DataError: the rows of each type are all one group; or there is nothing to learn from.
    """
    if not scorers:
        raise ConfigError("No blind scorer is named. Name one at least, such as 'length'.")
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
        # Of a type whose rows are all one group nothing can be learned that it was not judged on.
        field = field[field["group"].groupby(field["type"]).transform("nunique") > 1].reset_index(drop=True)
        if field.empty:
            raise DataError(
                f"The {len(rows)} rows cannot be attacked: those of a type are all one group (by {by}), so that nothing "
                f"is left to learn from. Give more images, or correct the column of the images."
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
            # What is learned elsewhere makes no fold depend on another.
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
    """Return the seconds of the named attackers; of all together, what they took in all."""
    seconds_by_name = {name: round(seconds[name], 2) for name in names if name != BEST}
    return {**seconds_by_name, BEST: round(sum(seconds_by_name.values()), 2)}


def has_enough_images(rows: pd.DataFrame) -> bool:
    """Return whether some type of audit rows has so many images that something can be learned from it."""
    return bool((rows.groupby("type")["image_id"].nunique() >= FEWEST).any())


def load_attacker(spec: str, corpus: Sequence[str] | None = None) -> Scorer:
    """Return the scorer of a spec (``scorer_specs``), one that sees both captions too.

    Raises:
        BackendError: there is no such scorer.
    """
    attacker = load_scorer(spec, both=True)
    if corpus is not None and "corpus" in inspect.signature(attacker).parameters:
        return cast(Scorer, functools.partial(cast(Any, attacker), corpus=corpus))
    return attacker


def _select_source_rows(source: Source, rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a source that are none of the attacked ones; those with a paraphrase, where it counts and any has.

    Raises:
        DataError: there is none.
    """
    attacked_pairs = {
        _normalise_pair(*texts) for texts in zip(rows["caption"], rows["negative_caption"], strict=True)
    }
    texts = zip(source.rows["caption"], source.rows["negative_caption"], strict=True)
    source_rows = source.rows[[_normalise_pair(*pair) not in attacked_pairs for pair in texts]]
    if source_rows.empty:
        raise DataError(
            f"Nothing can be learned from {source.name!r}: all of its {len(source.rows)} rows stand in the audited data "
            f"set too. Give what was rejected, the pool that it was made from, or another data set."
        )
    second = source_rows["caption2"].notna()
    return source_rows[second] if "caption2" in columns and second.any() else source_rows


def _normalise_pair(caption: str, negative: str) -> tuple[str, str]:
    """Return the words of both texts, which formatting does not change."""
    first, second = (" ".join(extract_words(text)) for text in (caption, negative))
    return first, second


def _sample_rows(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return all rows of types of at most ``MOST`` rows, and of larger ones whole images up to it; by pair_id."""
    parts = []
    for type_name in rows["type"].unique():
        part = rows[rows["type"] == type_name]
        if len(part) > MOST:
            sizes = part["image_id"].value_counts().sort_index()
            sizes = sizes.iloc[np.argsort(compute_stable_keys(sizes.index.tolist(), seed), kind="stable")]
            within = sizes.cumsum() <= MOST
            within.iloc[0] = True  # an image that has more rows alone
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
    """Return the gaps of the judged rows by task and attacker, (n,) or (n, true captions), and the seconds of each."""
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
    """Return the gaps of the judged rows of one type by task and attacker, (n, true captions), and the seconds."""
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
        # Pairs stand caption by caption, each in the order of the rows.
        shape = (len(task.columns), -1)
        result[task] = {name: values[use & judged].reshape(shape).T for name, values in of_task.items()}
    return result, scorer_gaps.seconds
