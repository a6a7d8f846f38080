"""Compute the trade-off of refinement: rows kept against a blind attacker's accuracy, over methods and strengths.

A candidate is a method at a strength. The attacker that chooses among candidates must not be the attacker whose
accuracy is reported for the chosen candidate: see ``caramel refine``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from caramel.blind.text.attack import BEST, FEWEST, has_enough_images, run_caption_attack
from caramel.errors import DataError
from caramel.refine.adversarial import UNBALANCED, Reasons, Within, check_grid, get_strata
from caramel.refine.aflite import AFLiteResult, run_aflite
from caramel.refine.length_matching import compute_length_gaps
from caramel.refine.mirrored_grid import KeepMask, compute_grid_cells, reduce_mirrored, select_mirrored
from caramel.refine.rows import compute_row_gaps
from caramel.utils.acceptance import Acceptance, Verdict, compute_verdict
from caramel.utils.arrays import Ints

# (audit rows) -> accuracy of a blind attacker and its 95 % interval, all in [0, 1].
Attack = Callable[[pd.DataFrame], tuple[float, float, float]]

NONE, LENGTH, ADVERSARIAL, AFLITE = "none", "length", "adversarial", "aflite"
AFLITE_ADVERSARIAL = "aflite+adversarial"
METHODS = (LENGTH, ADVERSARIAL, AFLITE, AFLITE_ADVERSARIAL)
CELLS = (1.0, 0.25, 0.1, 0.02)  # side of a cell; the last is the published value
LEVELS = (0.7, 0.6, 0.55, 0.52, 0.5)  # predictability at which AFLite stops
UNMATCHED = "no pair with the opposite difference in length"
PREDICTABLE = "too predictable for an ensemble of linear models"
SURPLUS = "left out at random: fewer rows were asked for"
COLUMNS = ("method", "strength", "rows", "share", "accuracy", "ci_low", "ci_high")


@dataclass(frozen=True)
class Candidate:
    """A refinement: which rows it keeps, and why it drops the others.

    Attributes:
        method: ``none`` or one of ``METHODS``.
        strength: side of a cell (``adversarial``) or AFLite's level; NaN for a method without a strength.
        reasons: (n,) why a row is dropped; "" if it is kept.
        cells: (n, k) grid that the rows are balanced on; k = 0 without a grid.
    """

    method: str
    strength: float
    reasons: Reasons
    cells: Ints

    @property
    def keep_mask(self) -> KeepMask:
        """Which rows are kept. (n,)."""
        mask: KeepMask = self.reasons == ""
        return mask


def build_candidates(
    rows: pd.DataFrame,
    *,
    methods: Sequence[str],
    scorers: Sequence[str],
    folds: int,
    within: Within,
    seed: int,
    cells: Sequence[float] = CELLS,
    levels: Sequence[float] = LEVELS,
) -> list[Candidate]:
    """Return the candidates of all methods and strengths; the first is ``none``, which keeps all rows.

    - ``length``: see ``length_matching.py``.
    - ``adversarial``: the grid over the scorers' gaps (``mirrored_grid.select_balanced``), for each cell side.
    - ``aflite``: ``aflite.run_aflite`` on each type by itself, with the scorers' gaps as features, for each level.
    - ``aflite+adversarial``: the rows that AFLite leaves are scored again with other folds, and balanced on the
      signs of the gaps.

    Args:
        rows: audit rows, see ``rows.py``.
        methods: names from ``METHODS``.
        scorers: blind scorers that refinement is fitted on.
        folds: number of folds of their cross-validation.
        within: whether each subtype has its own grid.
        seed: seed of folds and sampling.
        cells: sides of a grid cell.
        levels: predictabilities at which AFLite stops, in [0, 1].

    Raises:
        ConfigError: as in ``adversarial.check_grid``.
        BackendError: a scorer is unknown.
    """
    for cell in cells:
        check_grid(scorers, cell)
    parts = get_strata(rows, within)
    whole = np.full(len(rows), "", dtype=object)
    nothing = np.zeros((len(rows), 0), dtype=np.int64)
    refinements = [Candidate(NONE, np.nan, whole, nothing)]

    def build_on_grid(
        method: str, strength: float, grid: Ints, reason: str, before: Reasons = whole
    ) -> Candidate:
        grid_mask = select_mirrored(grid, rows["pair_id"].tolist(), parts, seed=seed)
        return Candidate(
            method, strength, np.where(grid_mask, before, np.where(before == "", reason, before)), grid
        )

    if LENGTH in methods:
        refinements.append(build_on_grid(LENGTH, np.nan, compute_length_gaps(rows)[:, None], UNMATCHED))
    if set(methods) <= {LENGTH}:
        return refinements
    gaps = compute_row_gaps(rows, scorers, folds=folds, seed=seed)
    if ADVERSARIAL in methods:
        refinements += [
            build_on_grid(ADVERSARIAL, cell, compute_grid_cells(gaps, cell=cell), UNBALANCED)
            for cell in cells
        ]
    if AFLITE in methods or AFLITE_ADVERSARIAL in methods:
        for level, keep_mask in _iter_aflite_masks(rows, gaps, levels, seed):
            filtered = np.where(keep_mask, "", PREDICTABLE).astype(object)
            if AFLITE in methods:
                refinements.append(Candidate(AFLITE, level, filtered, nothing))
            if AFLITE_ADVERSARIAL in methods:
                signs = np.zeros_like(gaps)  # zero for dropped rows, which then balance no other row
                if keep_mask.any():
                    signs[keep_mask] = np.sign(
                        compute_row_gaps(rows[keep_mask], scorers, folds=folds, seed=seed + 1)
                    )
                refinements.append(build_on_grid(AFLITE_ADVERSARIAL, level, signs, UNBALANCED, filtered))
    return refinements


def _iter_aflite_masks(
    rows: pd.DataFrame, gaps: Ints, levels: Sequence[float], seed: int
) -> Iterator[tuple[float, KeepMask]]:
    """Yield each level with the mask of the rows that AFLite leaves, over all types."""
    parts: list[tuple[KeepMask, AFLiteResult]] = []
    for type_name in sorted(rows["type"].unique()):
        here = (rows["type"] == type_name).to_numpy()
        parts.append((here, run_aflite(rows[here], gaps[here], level=min(levels), least=0, seed=seed)))
    for level in levels:
        keep_mask = np.zeros(len(rows), dtype=np.bool_)
        for here, filtered in parts:
            keep_mask[here] = filtered.build_keep_mask(level)
        yield level, keep_mask


def reduce_candidate(
    candidate: Candidate, rows: pd.DataFrame, *, number: int, within: Within, seed: int
) -> Candidate:
    """Return the candidate with ``number`` random rows of its rows, or one fewer so that it stays balanced."""
    names, parts = rows["pair_id"].tolist(), get_strata(rows, within)
    reduced_mask = reduce_mirrored(candidate.keep_mask, candidate.cells, names, parts, rows=number, seed=seed)
    reasons = np.where(candidate.keep_mask & ~reduced_mask, SURPLUS, candidate.reasons)
    return Candidate(candidate.method, candidate.strength, reasons, candidate.cells)


def compute_tradeoff_curve(
    rows: pd.DataFrame, refinements: Sequence[Candidate], attack: Attack, *, among: KeepMask | None = None
) -> pd.DataFrame:
    """Return one row per candidate: method, strength, rows, share, accuracy, ci_low and ci_high.

    ``share`` is the share of rows that the candidate keeps. The accuracy is NaN if a candidate keeps too few rows.

    Args:
        rows: audit rows.
        refinements: candidates of these rows.
        attack: measures the accuracy on the rows that a candidate keeps.
        among: (n,) mask of the rows that the attack may use, so that the other rows can evaluate the choice;
            None: all rows.
    """
    lines = []
    for candidate in refinements:
        number = int(candidate.keep_mask.sum())
        part = rows[candidate.keep_mask if among is None else candidate.keep_mask & among].reset_index(
            drop=True
        )
        figures = attack(part) if len(part) else (np.nan,) * 3
        lines.append((candidate.method, candidate.strength, number, number / len(rows), *figures))
    return pd.DataFrame(lines, columns=list(COLUMNS))


def choose_candidate(
    curve: pd.DataFrame, *, target: float | None, number: int | None, acceptance: Acceptance
) -> int:
    """Return the index of the chosen candidate.

    - With a target: the candidate with the most rows whose accuracy is shown to be at most ``target``. With
      ``not_refuted`` the measured accuracy must be at most ``target``, whatever its interval.
    - Without a target: the refinement (not ``none``) whose interval ends lowest. The lowest accuracy would favour
      the fewest rows, by chance.

    A candidate without an accuracy is never chosen.

    Args:
        curve: result of ``compute_tradeoff_curve``.
        target: highest accuracy, in [0, 1], or None.
        number: number of rows that a candidate must have, or one fewer, as ``reduce_candidate`` leaves; None: at
            least one.
        acceptance: see ``caramel.utils.acceptance``.

    Raises:
        DataError: no candidate is eligible; the message says what is possible, and how many rows would be enough.
    """
    least, most = max(1, (number or 0) - 1), curve.loc[curve["method"] != NONE, "rows"].max()
    eligible = curve[(curve["rows"] >= least) & curve["accuracy"].notna()]
    if target is None:
        eligible = eligible[eligible["method"] != NONE]
    if eligible.empty and most >= least:
        raise DataError(
            f"Settings keep up to {most} rows, but no type has {FEWEST} images among the rows that a choice is made "
            f"on, so no blind attacker can be trained. Give more rows, or allow larger cells."
        )
    if eligible.empty:
        raise DataError(
            f"No setting keeps {number or 1} rows: a refinement keeps at most {most}. Request fewer rows, or allow "
            f"larger cells."
        )
    if target is None:
        return int(eligible.sort_values("ci_high", kind="stable").index[0])
    # With not_refuted nothing must be shown: the measured accuracy is the only criterion.
    accepted = [one.state == "accepted" for one in judge_curve(eligible, target)]
    low = eligible[eligible["accuracy"] <= target] if acceptance == "not_refuted" else eligible[accepted]
    if low.empty:
        raise DataError(_format_error(eligible, target, acceptance))
    return int(low.sort_values(["rows", "accuracy"], ascending=[False, True], kind="stable").index[0])


def judge_curve(curve: pd.DataFrame, target: float) -> list[Verdict]:
    """Return the verdict of each interval of the curve on the target."""
    columns = (curve[name] for name in ("accuracy", "ci_low", "ci_high", "rows"))
    return [
        compute_verdict(p, low, high, rows=n, limit=target) for p, low, high, n in zip(*columns, strict=True)
    ]


def _format_error(eligible: pd.DataFrame, target: float, acceptance: Acceptance) -> str:
    """Return the message that no candidate reaches the target."""
    if acceptance == "not_refuted":
        best = eligible.sort_values("accuracy", kind="stable").iloc[0]
        return (
            f"No setting brings the blind attacker to {target}: the lowest is {best['accuracy']:.3f} with "
            f"{best['rows']} rows ({best['method']}). Raise the target, or refine with further scorers."
        )
    nearest = eligible.sort_values("ci_high", kind="stable").head(1)
    best, (one,) = nearest.iloc[0], judge_curve(nearest, target)
    return (
        f"No setting is shown to bring the blind attacker to {target}: the lowest interval ends at "
        f"{best['ci_high']:.3f}, around {best['accuracy']:.3f} with {best['rows']} rows ({best['method']}), "
        f"{one}. Raise the target, give more rows, refine with further scorers, or accept a target that is only "
        f"not refuted (acceptance not_refuted)."
    )


def build_attack(scorers: Sequence[str], *, folds: int, seed: int) -> Attack:
    """Return the attacker that stacks the scorers (``attack.run_caption_attack``), over all rows.

    Its figures are NaN if there are too few rows to train on.
    """

    def compute_figures(rows: pd.DataFrame) -> tuple[float, float, float]:
        if not has_enough_images(rows):
            return np.nan, np.nan, np.nan
        overall = run_caption_attack(rows, scorers, folds=folds, seed=seed).figures[BEST]["overall"]
        return overall["micro"], overall["ci_low"], overall["ci_high"]

    return compute_figures
