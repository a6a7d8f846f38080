"""The method behind ``caramel refine``: try, take, judge.

Every method is tried at several strengths, and an attacker made of the scorers that it was fitted on chooses among
them by half of the rows, whole groups (``utils.grouping``). What is taken is then judged on the other half, by which nothing
was chosen, by scorers that had no part in it, and by all together; they learn from the first half. Of several candidates
the one that is chosen has the accuracy that came out low, so that on the rows of the choice it would look better than it is.
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

# What refinement is fitted on and chosen by, and the further scorers that judge the result.
FITTED = ("ngram", "probe", "char_probe", "edit_probe", "length", "rare_words")
FURTHER = ("kneser_ney", "char_ngram", "shrunk_probe", "final_punctuation", "casing", "digits", "articles")

Figures = tuple[float, float, float]  # accuracy, ci_low, ci_high; all in [0, 1]


@dataclass(frozen=True)
class RefineSettings:
    """How a data set is refined; what is left empty is the default.

    Attributes:
        scorers: blind scorers that refinement is fitted on and chosen by.
        attackers: further ones, that judge the result.
        target: highest accuracy of the blind attacker, in [0.5, 1]; None: the lowest interval is taken.
        acceptance: whether the target must be shown to be reached; see ``caramel.utils.acceptance``.
        rows: rows to keep, or one fewer; None: as many as there are.
        methods: of ``tradeoff.METHODS``.
        cells: sides of a grid cell.
        within: whether each subtype has a grid of its own.
        folds: of the cross-validation.
        seed: of folds and draws.
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
        rejects: table ``rejects``: rows that were of no use.
        fresh: (n,) whether a row is of the half by which no candidate is chosen.
        candidates: refinements of the rows.
        curve: a row for each of them, see ``tradeoff.tradeoff``; accuracies are of the other half.
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
        rejects: table ``rejects``: all others, with the reason.
        chosen: the method and its strength.
        curve: what each method and strength would have kept, and its accuracy.
        judged: who judges -> accuracy of the blind attacker before and after, on rows by which nothing was chosen.
        target: highest accuracy that was asked for; None: none.
    """

    rows: pd.DataFrame
    rejects: pd.DataFrame
    chosen: Candidate
    curve: pd.DataFrame
    judged: Mapping[str, tuple[Figures, Figures]]
    target: float | None

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Who judges -> what the interval after refinement says about the target; nothing without one."""
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
    """Return the settings, with the defaults where a sequence is empty; see ``Settings``.

    Raises:
        ConfigError: nobody would judge the result but those that it was fitted on.
    """
    fitted = tuple(scorers) or FITTED
    further = tuple(attackers) or tuple(s for s in FURTHER if s not in fitted)
    if not further or set(fitted) & set(further):
        raise ConfigError(
            f"--attacker {list(further)!r} and --scorer {list(fitted)!r}: the result must be judged by one scorer "
            f"at least that it was not refined with. Name others."
        )
    methods, cells = tuple(methods) or tradeoff.METHODS, tuple(cells) or tradeoff.CELLS
    return RefineSettings(fitted, further, target, acceptance, rows, methods, cells, within, folds, seed)


def build_candidate_set(given: pd.DataFrame, settings: RefineSettings, where: str) -> RefineCandidates:
    """Return the repaired rows and all refinements of them.

    Args:
        given: audit rows, see ``rows.py``.
        settings: how they are refined.
        where: what they are of, for messages.

    Raises:
        DataError: no row is of use.
        ConfigError: as ``tradeoff.candidates``.
        BackendError: there is no scorer of that name.
    """
    rows, rejects = repair_rows(given)
    if rows.empty:
        raise DataError(f"No row of {where} is of use: {rejects['reason'].value_counts().to_dict()}.")
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
    """Return the best refinement, not judged yet.

    Raises:
        DataError: none fits; see ``tradeoff.choose``.
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
    """Return who judges -> accuracy of the blind attacker before and after refinement, on the fresh half of the rows.

    Attackers learn from the other half. ``rejected_rows`` are all scorers as they learn from the rows that were rejected,
    where those and the others are enough to learn from; before refinement there are none, and the figure is that of all scorers.

    Args:
        tried: before refinement.
        after: those of its rows that are kept.
        settings: who judges, and the seed.
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
        # What was thrown away gives away what was kept: nobody has to learn on the refined set itself.
        accuracies["rejected_rows"] = (accuracies["all_scorers"][0], judges["all_scorers"](fresh[1], rejects))
    return accuracies


def _build_attacker(
    scorers: Sequence[str], settings: RefineSettings
) -> Callable[[pd.DataFrame, pd.DataFrame], Figures]:
    """Return what gives the figures, on some rows, of the scorers stacked as they learn from others; NaN of too few rows."""

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
    """Return what ``refine.json`` holds; ``rows`` is the number of rows that were refined."""
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
