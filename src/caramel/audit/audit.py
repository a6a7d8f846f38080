"""Audit of a data set's texts: what blind attackers make of them, what gives them away, and their defects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.audit.artifacts import Artifacts, find_artifacts
from caramel.audit.contamination import find_contamination
from caramel.audit.defects import find_defects
from caramel.blind.image.shortcuts import ImageShortcuts
from caramel.blind.text.attack import BEST, Attack, has_enough_images, run_attacks
from caramel.blind.text.text_tasks import P1_N, PARAPHRASED, Source
from caramel.utils.acceptance import CHANCE, STATES, Acceptance, Verdict, compute_verdict

LEAK_COLUMNS = ("pair_id", "side", "kind", "similarity", "row", "corpus_text", "matches")
ORDER_ONLY = "word_order_only"
REWORDED = ("replace", "add")  # types whose negatives must have other words, not the same in another order


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        name: of the data set.
        rows: the audit rows.
        folds: of the cross-validation.
        seed: of folds and draws.
        attack: what blind attackers make of caption and negative, learned by cross-validation.
        further: what they make of the other tasks, and what attackers do that learned elsewhere.
        giveaways: what they can go by.
        defects: name -> pair_ids of the rows that have it.
        faulty: number of rows with a defect; ``word_order_only`` counts where the type says that words are
            replaced or added.
        images: what the two images of a row give away, where it has both; None: nothing was looked at.
        leaks: texts that stand in a training corpus, ``LEAK_COLUMNS``; None: there is no corpus to look in.
    """

    name: str
    rows: pd.DataFrame
    folds: int
    seed: int
    attack: Attack
    giveaways: Artifacts
    defects: Mapping[str, Sequence[str]]
    faulty: int
    further: Sequence[Attack] = ()
    images: ImageShortcuts | None = None
    leaks: pd.DataFrame | None = None

    @property
    def best(self) -> Mapping[str, Any]:
        """The best blind attacker over all rows: micro, macro, ci_low, ci_high in [0, 1], p_value, ties."""
        overall: Mapping[str, Any] = self.attack.figures[BEST]["overall"]
        return overall

    @property
    def attacks(self) -> Sequence[Attack]:
        """All attacks, on each task and from each source."""
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
    """Return how well blind attackers do on audit rows, by what, and the rows' defects.

    The texts are taken as they are written: final stops and capital letters are part of what
    an attacker sees. Learned attackers are judged out of fold; see ``attack``.

    Args:
        rows: audit rows: pair_id, image_id, type, subtype, caption, caption2 (or None), negative_caption.
        scorers: blind scorers, see ``attack.found_scorer``.
        folds: of the cross-validation.
        seed: of folds and draws.
        name: of the data set.
        corpus: texts that language models learn from, instead of the other folds.
        sources: data sets that attackers learn from as well, each by itself.

    Raises:
        BackendError: there is no scorer of that name, or its model cannot be loaded.
        ConfigError: no scorer is named.
        DataError: the rows cannot be attacked, or a source has nothing to learn from.
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
    return Audit(name, rows, folds, seed, attack, result, defects, len(faulty), further)


def find_leaks(rows: pd.DataFrame, corpus: Path, *, column: str, seed: int) -> pd.DataFrame:
    """Return the captions, paraphrases and negatives that stand in a training corpus, exactly or nearly: ``LEAK_COLUMNS``.

    Args:
        rows: audit rows.
        corpus: file of texts; see ``leakage.leakage``.
        column: of the texts in it.
        seed: of the hash functions.

    Raises:
        DataError: the file is missing, broken, of no known format, or lacks the column.
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
    """Return what the best blind attacker's interval (micro) says about a limit in [0, 1], the worst first.

    Of each attack on a task of two texts, on captions and on paraphrases, wherever it learned: what rejected rows or
    paraphrases give away makes a data set no sounder for being hidden from the other attacks. All must be accepted.
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
    """Return what thresholds are broken, each with its figure.

    Args:
        result: of the audit.
        max_accuracy: broken unless the rule ``acceptance`` passes the best blind attacker's accuracy in each attack of
            ``accuracy_verdicts``.
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
        messages.append(f"{result.faulty} rows have a defect; at most {max_defects} are allowed.")
    return messages


def format_best_accuracy(attack: Attack) -> str:
    """Return the best blind attacker's accuracy with its interval, in per cent."""
    overall = attack.figures[BEST]["overall"]
    micro, low, high = (format_percent(overall[key]) for key in ("micro", "ci_low", "ci_high"))
    return f"{micro} % [{low}, {high}]"


def format_attack_scope(attack: Attack) -> str:
    """Return in words what an attack is on and where it learned, as far as that is not captions and the other folds."""
    task = "" if attack.task == P1_N else f", {attack.task.name}"
    return task if attack.source is None else f"{task}, learned from {attack.source!r}"


def format_percent(share: float) -> str:
    """Return a share in per cent, with one decimal."""
    return f"{100 * share:.1f}"
