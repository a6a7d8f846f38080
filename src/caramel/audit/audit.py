"""Audit the texts of a data set: accuracy of blind attackers, artifacts, and defects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.audit.artifacts import Artifacts, find_artifacts
from caramel.audit.ceilings import compute_audit_ceilings
from caramel.audit.contamination import find_contamination
from caramel.audit.defects import find_defects
from caramel.blind.image.shortcuts import ImageShortcuts
from caramel.blind.text.attack import BEST, Attack, has_enough_images, run_attacks
from caramel.blind.text.text_tasks import P1_N, PARAPHRASED, Source
from caramel.utils.acceptance import CHANCE, STATES, Acceptance, Verdict, compute_verdict

LEAK_COLUMNS = ("pair_id", "side", "kind", "similarity", "row", "corpus_text", "matches")
ORDER_ONLY = "word_order_only"
REWORDED = ("replace", "add")  # types whose negatives must have other words, not only another order


@dataclass(frozen=True)
class Audit:
    """Results of an audit.

    Attributes:
        name: name of the data set.
        rows: the audit rows.
        folds: number of cross-validation folds.
        seed: random seed for folds and sampling.
        attack: results of blind attackers on caption and negative, trained by cross-validation.
        further: results on the other tasks, and results of attackers that trained on other data sets.
        giveaways: artifacts that attackers can use.
        defects: name -> pair_ids of the rows with this defect.
        faulty: number of rows with a defect. ``word_order_only`` counts only for types that replace or add
            words.
        ceilings: the most that models of a class can reach; see ``compute_audit_ceilings``.
        images: shortcuts in the images of rows with both images; None: images were not checked.
        leaks: texts that a training corpus contains, with ``LEAK_COLUMNS``; None: contamination was not
            checked.
    """

    name: str
    rows: pd.DataFrame
    folds: int
    seed: int
    attack: Attack
    giveaways: Artifacts
    defects: Mapping[str, Sequence[str]]
    faulty: int
    ceilings: pd.DataFrame
    further: Sequence[Attack] = ()
    images: ImageShortcuts | None = None
    leaks: pd.DataFrame | None = None

    @property
    def best(self) -> Mapping[str, Any]:
        """The best blind attacker's figures over all rows: micro, macro, ci_low, ci_high in [0, 1], p_value, ties."""
        overall: Mapping[str, Any] = self.attack.figures[BEST]["overall"]
        return overall

    @property
    def attacks(self) -> Sequence[Attack]:
        """All attacks, for each task and source."""
        return (self.attack, *self.further)


def audit_rows(
    rows: pd.DataFrame,
    *,
    scorers: Sequence[str],
    folds: int,
    seed: int,
    name: str,
    corpus: Sequence[str] | None = None,
    sources: Sequence[Source] = (),
) -> Audit:
    """Return the accuracy of blind attackers on audit rows, the artifacts, and the rows' defects.

    Texts are used as written: attackers see final stops and capital letters. Learned attackers are tested out
    of fold; see ``attack``.

    Args:
        rows: audit rows: pair_id, image_id, type, subtype, caption, caption2 (or None), negative_caption.
        scorers: blind scorers; see ``attack.load_attacker``.
        folds: number of cross-validation folds.
        seed: random seed for folds and sampling.
        name: name of the data set.
        corpus: texts that n-gram models train on instead of the other folds.
        sources: further data sets that attackers train on, each by itself.

    Raises:
        BackendError: there is no scorer with that name, or its model cannot be loaded.
        ConfigError: no scorer is named.
        DataError: the rows cannot be attacked, or a source has no rows to train on.
    """
    paraphrased = has_enough_images(rows[rows["caption2"].notna()])
    attack, *further = [
        result
        for tasks in ((P1_N,), PARAPHRASED)[: 2 if paraphrased else 1]
        for source in (None, *sources)
        for result in run_attacks(rows, scorers, tasks, folds=folds, seed=seed, corpus=corpus, source=source)
    ]
    defects = find_defects(rows)
    reworded = set(rows.loc[rows["type"].isin(REWORDED), "pair_id"])
    faulty = {
        pair
        for defect, pairs in defects.items()
        for pair in pairs
        if defect != ORDER_ONLY or pair in reworded
    }
    result = find_artifacts(attack.rows, seed=seed)
    ceilings = compute_audit_ceilings(rows)
    return Audit(name, rows, folds, seed, attack, result, defects, len(faulty), ceilings, further)


def find_leaks(rows: pd.DataFrame, corpus: Path, *, column: str, seed: int) -> pd.DataFrame:
    """Return the texts of the rows that a training corpus contains, exactly or nearly, with ``LEAK_COLUMNS``.

    Captions, paraphrases and negatives are looked up.

    Args:
        rows: audit rows.
        corpus: file of texts; see ``contamination.find_contamination``.
        column: column of the texts in this file.
        seed: random seed for the hash functions.

    Raises:
        DataError: the file is missing, broken or of an unknown format, or lacks the column.
    """
    texts = rows.melt("pair_id", ["caption", "caption2", "negative_caption"], "side", "said").dropna(
        subset="said"
    )
    matches = find_contamination(texts["said"].tolist(), corpus, column=column, seed=seed)
    where = texts.iloc[matches["text"].to_numpy(dtype=int)]
    return matches.assign(pair_id=where["pair_id"].to_numpy(), side=where["side"].to_numpy())[
        list(LEAK_COLUMNS)
    ]


def judge_accuracy(result: Audit, limit: float) -> list[tuple[Attack, Verdict]]:
    """Return the verdict of the best blind attacker's interval (micro) about a limit in [0, 1], the worst first.

    There is a verdict for each attack on a task of two texts: on captions and on paraphrases, from every
    training source. All must be accepted, because a shortcut that only one attack finds is still a shortcut.
    """
    verdicts = []
    for attack in result.attacks:
        if attack.task.chance == CHANCE:
            share, low, high = (
                attack.figures[BEST]["overall"][key] for key in ("micro", "ci_low", "ci_high")
            )
            judged = compute_verdict(share, low, high, rows=len(attack.rows), limit=limit)
            end = low if judged.state == "refused" else high
            verdicts.append((STATES.index(judged.state), end, attack, judged))
    return [
        (attack, judged) for *_, attack, judged in sorted(verdicts, key=lambda one: one[:2], reverse=True)
    ]


def list_broken_thresholds(
    result: Audit, *, max_accuracy: float | None, max_defects: int | None, acceptance: Acceptance
) -> list[str]:
    """Return a message for each broken threshold, with its figure.

    Args:
        result: the audit.
        max_accuracy: broken unless the rule ``acceptance`` passes the best blind attacker's accuracy in each
            attack of ``judge_accuracy``.
        max_defects: broken if more rows have a defect; see ``Audit.faulty``.
        acceptance: see ``caramel.utils.acceptance``.
    """
    messages = []
    if max_accuracy is not None:
        for attack, judged in judge_accuracy(result, max_accuracy):
            if not judged.is_passing(acceptance):
                messages.append(
                    f"The best blind attacker is right on {format_best_accuracy(attack)} of the rows{format_attack_scope(attack)}: {judged}."
                )
    if max_defects is not None and result.faulty > max_defects:
        messages.append(f"Rows with a defect: {result.faulty}; at most {max_defects} are allowed.")
    return messages


def format_best_accuracy(attack: Attack) -> str:
    """Return the best blind attacker's accuracy with its interval, in per cent."""
    overall = attack.figures[BEST]["overall"]
    micro, low, high = (format_percent(overall[key]) for key in ("micro", "ci_low", "ci_high"))
    return f"{micro} % [{low}, {high}]"


def format_attack_scope(attack: Attack) -> str:
    """Return in words the task and source of an attack; nothing for captions, nothing for the other folds."""
    task = "" if attack.task == P1_N else f", {attack.task.name}"
    return task if attack.source is None else f"{task}, learned from {attack.source!r}"


def format_percent(share: float) -> str:
    """Return a share in per cent, with one decimal."""
    return f"{100 * share:.1f}"
