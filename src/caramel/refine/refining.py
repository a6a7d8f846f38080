"""Refine a data set, the method behind ``caramel refine``: build candidates, choose one, evaluate it.

1. Each method is tried at several strengths.
2. An attacker that stacks the fitted scorers chooses a candidate on one half of the rows. Groups
   (``utils.grouping``) are not divided.
3. The chosen candidate is evaluated on the other half, on which nothing was chosen: by scorers that had no part in
   the refinement, and by all scorers together. They are trained on the first half.

Step 3 needs other rows because the choice favours an accuracy that came out low by chance: on the rows of the
choice, the chosen candidate would look better than it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from caramel.blind.text.attack import BEST, has_enough_images, run_caption_attack
from caramel.blind.text.text_tasks import Source
from caramel.errors import ConfigError, DataError
from caramel.refine import tradeoff
from caramel.refine.adversarial import Within
from caramel.refine.mirrored_grid import KeepMask
from caramel.refine.rows import build_rejects, repair_rows
from caramel.refine.tradeoff import Candidate
from caramel.utils.acceptance import Acceptance, Verdict, compute_verdict
from caramel.utils.grouping import group_rows
from caramel.utils.hashing import assign_folds

# Default scorers that refinement is fitted on and chosen by, and further scorers that evaluate the result.
FITTED = ("ngram", "probe", "char_probe", "edit_probe", "length", "rare_words")
FURTHER = ("kneser_ney", "char_ngram", "shrunk_probe", "final_punctuation", "casing", "digits", "articles")

Figures = tuple[float, float, float]  # accuracy, ci_low, ci_high; all in [0, 1]


@dataclass(frozen=True)
class RefineSettings:
    """How a data set is refined.

    Attributes:
        scorers: blind scorers that refinement is fitted on and chosen by.
        attackers: further blind scorers, which evaluate the result.
        target: highest accuracy of the blind attacker, in [0.5, 1]; None: the lowest interval is chosen.
        acceptance: whether the target must be shown to be reached; see ``caramel.utils.acceptance``.
        rows: number of rows to keep, or one fewer; None: as many as possible.
        methods: names from ``tradeoff.METHODS``.
        cells: sides of a grid cell to try.
        within: whether each subtype has its own grid.
        folds: number of folds of the cross-validation.
        seed: seed of folds and sampling.
    """

    scorers: Sequence[str]
    attackers: Sequence[str]
    target: float | None
    acceptance: Acceptance
    rows: int | None
    methods: Sequence[str]
    cells: Sequence[float]
    within: Within
    folds: int
    seed: int


@dataclass(frozen=True)
class RefineCandidates:
    """The candidates of a data set.

    Attributes:
        rows: audit rows, repaired.
        rejects: table ``rejects``: unusable rows.
        fresh: (n,) whether a row is in the half on which no candidate is chosen.
        candidates: refinements of the rows.
        curve: one row per candidate, see ``tradeoff.compute_tradeoff_curve``. Accuracies are measured on the
            other half, on which the candidate is chosen.
    """

    rows: pd.DataFrame
    rejects: pd.DataFrame
    fresh: KeepMask
    candidates: Sequence[Candidate]
    curve: pd.DataFrame


@dataclass(frozen=True)
class RefinedDataset:
    """A refined data set.

    Attributes:
        rows: audit rows that are kept.
        rejects: table ``rejects``: all other rows, with the reason.
        chosen: the candidate that was chosen: its method and strength.
        curve: rows kept and accuracy of each method and strength.
        judged: group of attackers -> accuracy of the blind attacker before and after refinement, on rows on which
            nothing was chosen.
        target: the requested highest accuracy; None: no target.
    """

    rows: pd.DataFrame
    rejects: pd.DataFrame
    chosen: Candidate
    curve: pd.DataFrame
    judged: Mapping[str, tuple[Figures, Figures]]
    target: float | None

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Group of attackers -> verdict of the interval after refinement on the target; empty without a target."""
        if self.target is None:
            return {}
        rows, limit = len(self.rows), self.target
        return {
            who: compute_verdict(*after, rows=rows, limit=limit) for who, (_, after) in self.judged.items()
        }


def build_settings(
    *,
    scorers: Sequence[str] = (),
    attackers: Sequence[str] = (),
    target: float | None,
    acceptance: Acceptance,
    rows: int | None,
    methods: Sequence[str] = (),
    cells: Sequence[float] = (),
    within: Within,
    folds: int,
    seed: int,
) -> RefineSettings:
    """Return the settings, with the default for each empty sequence; see ``RefineSettings``.

    Raises:
        ConfigError: no attacker is left that refinement is not fitted on, or a scorer is also an attacker.
    """
    fitted = tuple(scorers) or FITTED
    further = tuple(attackers) or tuple(s for s in FURTHER if s not in fitted)
    if not further or set(fitted) & set(further):
        raise ConfigError(
            f"--attacker {list(further)!r} and --scorer {list(fitted)!r}: at least one scorer that is not used for "
            f"refinement must evaluate the result, and no scorer may do both. Name other scorers."
        )
    methods, cells = tuple(methods) or tradeoff.METHODS, tuple(cells) or tradeoff.CELLS
    return RefineSettings(fitted, further, target, acceptance, rows, methods, cells, within, folds, seed)


def build_candidate_set(given: pd.DataFrame, settings: RefineSettings, where: str) -> RefineCandidates:
    """Return the repaired rows and all refinements of them.

    Args:
        given: audit rows, see ``rows.py``.
        settings: how they are refined.
        where: source of the rows, for messages.

    Raises:
        DataError: no row is usable.
        ConfigError: as in ``tradeoff.build_candidates``.
        BackendError: a scorer is unknown.
    """
    rows, rejects = repair_rows(given)
    if rows.empty:
        raise DataError(f"No row of {where} is usable: {rejects['reason'].value_counts().to_dict()}.")
    refinements = tradeoff.build_candidates(
        rows,
        methods=settings.methods,
        scorers=settings.scorers,
        folds=settings.folds,
        within=settings.within,
        seed=settings.seed,
        cells=settings.cells,
    )
    if settings.rows is not None:
        refinements = [
            tradeoff.reduce_candidate(
                c, rows, number=settings.rows, within=settings.within, seed=settings.seed
            )
            for c in refinements
        ]
    choosing = tradeoff.build_attack(settings.scorers, folds=settings.folds, seed=settings.seed + 2)
    fresh = assign_folds(group_rows(rows).names, folds=2, seed=settings.seed) == 1
    return RefineCandidates(
        rows,
        rejects,
        fresh,
        refinements,
        tradeoff.compute_tradeoff_curve(rows, refinements, choosing, among=~fresh),
    )


def take_best(tried: RefineCandidates, settings: RefineSettings) -> RefinedDataset:
    """Return the best refinement, not evaluated yet.

    Raises:
        DataError: no candidate is eligible; see ``tradeoff.choose_candidate``.
    """
    index = tradeoff.choose_candidate(
        tried.curve, target=settings.target, number=settings.rows, acceptance=settings.acceptance
    )
    chosen = tried.candidates[index]
    kept_rows = tried.rows[chosen.keep_mask].reset_index(drop=True)
    rejects = pd.concat([tried.rejects, build_rejects(tried.rows, chosen.reasons)], ignore_index=True)
    return RefinedDataset(kept_rows, rejects, chosen, tried.curve, {}, settings.target)


def evaluate_refinement(
    tried: RefineCandidates, after: pd.DataFrame, settings: RefineSettings
) -> dict[str, tuple[Figures, Figures]]:
    """Return the accuracy of each blind attacker before and after refinement, on the fresh half of the rows.

    - ``new_scorers``: the scorers that had no part in the refinement, trained on the other half.
    - ``all_scorers``: all scorers, trained on the other half.
    - ``rejected_rows``: all scorers, trained on the rejected rows. This entry exists only if both the rejected rows
      and the kept fresh rows have enough images. Before refinement there are no rejected rows, so its figure "before"
      is that of ``all_scorers``.

    Args:
        tried: rows and candidates before refinement.
        after: rows of ``tried`` that are kept.
        settings: scorers, attackers, folds and seed.
    """
    groups = {
        "new_scorers": settings.attackers,
        "all_scorers": (*settings.scorers, *settings.attackers),
    }
    before, keep_mask = tried.rows, tried.rows["pair_id"].isin(after["pair_id"])
    fresh = [before[tried.fresh], before[tried.fresh & keep_mask]]
    chosen_by = [before[~tried.fresh], before[~tried.fresh & keep_mask]]
    judges = {label: _build_attacker(names, settings) for label, names in groups.items()}
    accuracies = {
        label: (attack(fresh[0], chosen_by[0]), attack(fresh[1], chosen_by[1]))
        for label, attack in judges.items()
    }
    rejects = before[~keep_mask]
    if all(has_enough_images(rows) for rows in (fresh[1], rejects)):
        # Rejected rows can give away the rows that were kept, without training on the refined set itself.
        accuracies["rejected_rows"] = (accuracies["all_scorers"][0], judges["all_scorers"](fresh[1], rejects))
    return accuracies


def _build_attacker(
    scorers: Sequence[str], settings: RefineSettings
) -> Callable[[pd.DataFrame, pd.DataFrame], Figures]:
    """Return a function (rows, training rows) -> figures of the stacked scorers; NaN if either has too few images."""

    def compute_figures(rows: pd.DataFrame, learned: pd.DataFrame) -> Figures:
        if not (has_enough_images(rows) and has_enough_images(learned)):
            return math.nan, math.nan, math.nan
        source = Source("other rows", learned.reset_index(drop=True))
        attack = run_caption_attack(
            rows.reset_index(drop=True),
            scorers,
            folds=settings.folds,
            seed=settings.seed + 3,
            source=source,
        )
        overall = attack.figures[BEST]["overall"]
        return overall["micro"], overall["ci_low"], overall["ci_high"]

    return compute_figures


def build_report(refined: RefinedDataset, settings: RefineSettings, rows: int, source: str) -> dict[str, Any]:
    """Return the content of ``refine.json``; ``rows`` is the number of rows that were refined."""
    names = ("accuracy", "ci_low", "ci_high")
    stated = {
        "source": source,
        "scorers": settings.scorers,
        "attackers": settings.attackers,
        "target": settings.target,
        "acceptance": settings.acceptance,
        "rows": settings.rows,
        "methods": settings.methods,
        "cells": settings.cells,
        "within": settings.within,
        "folds": settings.folds,
        "seed": settings.seed,
    }
    return {
        "settings": stated,
        "method": refined.chosen.method,
        "strength": None if math.isnan(refined.chosen.strength) else refined.chosen.strength,
        "rows_repaired": rows,
        "rows_kept": len(refined.rows),
        "best_blind_attacker": {
            label: {
                "before": dict(zip(names, before, strict=True)),
                "after": dict(zip(names, after, strict=True)),
            }
            for label, (before, after) in refined.judged.items()
        },
        "target": {
            label: {"state": decision.state, "rows_needed": decision.needed}
            for label, decision in refined.verdicts.items()
        },
    }
