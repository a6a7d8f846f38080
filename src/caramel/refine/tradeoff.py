"""What refinement costs: rows kept against the accuracy of a blind attacker, over methods and strengths.

A candidate is a method at a strength. The attacker that judges candidates, so that one is chosen, must not be
the one whose accuracy is reported of the chosen one: see ``caramel refine``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from caramel.blind.text.attack import BEST, FEWEST, has_enough_images, run_caption_attack
from caramel.errors import DataError
from caramel.refine.adversarial import UNBALANCED, Reasons, Within, check_grid, strata
from caramel.refine.aflite import Filtered, aflite
from caramel.refine.length_matching import length_gaps
from caramel.refine.mirrored_grid import Kept, grid_cells, mirrored, thinned
from caramel.refine.rows import row_gaps
from caramel.utils.acceptance import Acceptance, Verdict, compute_verdict
from caramel.utils.arrays import Ints

# (audit rows) -> accuracy of a blind attacker, and its 95 % interval; all in [0, 1].
Attack = Callable[[pd.DataFrame], tuple[float, float, float]]

NONE, LENGTH, ADVERSARIAL, AFLITE = "none", "length", "adversarial", "aflite"
AFLITE_ADVERSARIAL = "aflite+adversarial"
METHODS = (LENGTH, ADVERSARIAL, AFLITE, AFLITE_ADVERSARIAL)
CELLS = (1.0, 0.25, 0.1, 0.02)  # side of a cell; the last is the published one
LEVELS = (0.7, 0.6, 0.55, 0.52, 0.5)  # predictability at which AFLite ends
UNMATCHED = "no pair with the opposite difference in length"
PREDICTABLE = "too predictable for an ensemble of linear models"
SURPLUS = "left out at random: fewer rows were asked for"
COLUMNS = ("method", "strength", "rows", "share", "accuracy", "ci_low", "ci_high")


@dataclass(frozen=True)
class Candidate:
    """A refinement: which rows it keeps, and why not the others.

    Attributes:
        method: ``none`` or one of ``METHODS``.
        strength: side of a cell (``adversarial``) or AFLite's level; NaN where there is none.
        reasons: (n,) why a row is not kept, or the empty text.
        cells: (n, k) grid that they are balanced on; k = 0 where there is none.
    """

    method: str
    strength: float
    reasons: Reasons
    cells: Ints

    @property
    def kept(self) -> Kept:
        """Which rows are kept. (n,)."""
        kept: Kept = self.reasons == ""
        return kept


def candidates(
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
    """Return what each method keeps of the rows at each strength, after ``none``, which keeps all.

    - ``length``: see ``length_matching.py``.
    - ``adversarial``: the grid over the scorers' gaps (``balance.balanced``) at each cell side.
    - ``aflite``: ``aflite.aflite`` of each type by itself, with the scorers' gaps as features, at each level.
    - ``aflite+adversarial``: what AFLite leaves is scored anew with other folds, and balanced on the signs.

    Args:
        rows: audit rows, see ``rows.py``.
        methods: of ``METHODS``.
        scorers: blind scorers that refinement is fitted on.
        folds: of their cross-validation.
        within: whether each subtype has a grid of its own.
        seed: of folds and draws.
        cells: sides of a grid cell.
        levels: predictabilities at which AFLite ends, in [0, 1].

    Raises:
        ConfigError: as ``refine.check_grid``.
        BackendError: there is no scorer of that name.
    """
    for cell in cells:
        check_grid(scorers, cell)
    parts = strata(rows, within)
    whole = np.full(len(rows), "", dtype=object)
    nothing = np.zeros((len(rows), 0), dtype=np.int64)
    found = [Candidate(NONE, np.nan, whole, nothing)]

    def on_grid(method: str, strength: float, grid: Ints, reason: str, before: Reasons = whole) -> Candidate:
        kept = mirrored(grid, rows["pair_id"].tolist(), parts, seed=seed)
        return Candidate(
            method, strength, np.where(kept, before, np.where(before == "", reason, before)), grid
        )

    if LENGTH in methods:
        found.append(on_grid(LENGTH, np.nan, length_gaps(rows)[:, None], UNMATCHED))
    if set(methods) <= {LENGTH}:
        return found
    gaps = row_gaps(rows, scorers, folds=folds, seed=seed)
    if ADVERSARIAL in methods:
        found += [on_grid(ADVERSARIAL, cell, grid_cells(gaps, cell=cell), UNBALANCED) for cell in cells]
    if AFLITE in methods or AFLITE_ADVERSARIAL in methods:
        for level, kept in _by_level(rows, gaps, levels, seed):
            filtered = np.where(kept, "", PREDICTABLE).astype(object)
            if AFLITE in methods:
                found.append(Candidate(AFLITE, level, filtered, nothing))
            if AFLITE_ADVERSARIAL in methods:
                signs = np.zeros_like(gaps)  # of rows that are not there: they balance nothing
                if kept.any():
                    signs[kept] = np.sign(row_gaps(rows[kept], scorers, folds=folds, seed=seed + 1))
                found.append(on_grid(AFLITE_ADVERSARIAL, level, signs, UNBALANCED, filtered))
    return found


def _by_level(
    rows: pd.DataFrame, gaps: Ints, levels: Sequence[float], seed: int
) -> Iterator[tuple[float, Kept]]:
    """Yield what AFLite leaves of all types at each level."""
    parts: list[tuple[Kept, Filtered]] = []
    for kind in sorted(rows["type"].unique()):
        here = (rows["type"] == kind).to_numpy()
        parts.append((here, aflite(rows[here], gaps[here], level=min(levels), least=0, seed=seed)))
    for level in levels:
        kept = np.zeros(len(rows), dtype=np.bool_)
        for here, filtered in parts:
            kept[here] = filtered.kept(level)
        yield level, kept


def thin(candidate: Candidate, rows: pd.DataFrame, *, number: int, within: Within, seed: int) -> Candidate:
    """Return the candidate with a random ``number`` of its rows, or one fewer so that it stays balanced."""
    names, parts = rows["pair_id"].tolist(), strata(rows, within)
    kept = thinned(candidate.kept, candidate.cells, names, parts, rows=number, seed=seed)
    reasons = np.where(candidate.kept & ~kept, SURPLUS, candidate.reasons)
    return Candidate(candidate.method, candidate.strength, reasons, candidate.cells)


def tradeoff(
    rows: pd.DataFrame, found: Sequence[Candidate], attack: Attack, *, among: Kept | None = None
) -> pd.DataFrame:
    """Return one row per candidate: method, strength, rows, share, accuracy, ci_low and ci_high.

    ``share`` is that of the rows that are kept. A candidate that keeps next to nothing has no accuracy: NaN.

    Args:
        rows: audit rows.
        found: candidates of these rows.
        attack: judges those that a candidate keeps.
        among: (n,) the rows that are shown to it, so that others are left to judge the choice; None: all.
    """
    lines = []
    for candidate in found:
        number = int(candidate.kept.sum())
        part = rows[candidate.kept if among is None else candidate.kept & among].reset_index(drop=True)
        figures = attack(part) if len(part) else (np.nan,) * 3
        lines.append((candidate.method, candidate.strength, number, number / len(rows), *figures))
    return pd.DataFrame(lines, columns=list(COLUMNS))


def choose(curve: pd.DataFrame, *, target: float | None, number: int | None, acceptance: Acceptance) -> int:
    """Return the place of the candidate with the most rows whose accuracy is shown to be at most ``target``.

    With ``not_refuted`` the accuracy that was measured must be no higher, whatever its interval. Without a target,
    that of the refinement (not ``none``) whose interval ends lowest: the lowest accuracy would be that of the
    fewest rows, by chance. A candidate without an accuracy is not taken.

    Args:
        curve: what ``tradeoff`` returned.
        target: highest accuracy, in [0, 1], or None.
        number: rows that a candidate must have, or one fewer, as ``thin`` leaves; None: at least one.
        acceptance: see ``caramel.utils.acceptance``.

    Raises:
        DataError: there is none; the message says what there is, and how many rows would do.
    """
    least, most = max(1, (number or 0) - 1), curve.loc[curve["method"] != NONE, "rows"].max()
    found = curve[(curve["rows"] >= least) & curve["accuracy"].notna()]
    if target is None:
        found = found[found["method"] != NONE]
    if found.empty and most >= least:
        raise DataError(
            f"Settings keep up to {most} rows, but no type has {FEWEST} images among those that it is judged by, so that no "
            f"blind attacker can judge them. Give more rows, or allow larger cells."
        )
    if found.empty:
        raise DataError(
            f"No setting keeps {number or 1} rows: the most that a refinement keeps is {most}. Ask for fewer, or allow "
            f"larger cells."
        )
    if target is None:
        return int(found.sort_values("ci_high", kind="stable").index[0])
    # Where nothing need be shown, what was measured is all that is left to choose by.
    shown = [one.state == "accepted" for one in judged(found, target)]
    low = found[found["accuracy"] <= target] if acceptance == "not_refuted" else found[shown]
    if low.empty:
        raise DataError(_out_of_reach(found, target, acceptance))
    return int(low.sort_values(["rows", "accuracy"], ascending=[False, True], kind="stable").index[0])


def judged(curve: pd.DataFrame, target: float) -> list[Verdict]:
    """Return what each interval of the curve says about the target."""
    columns = (curve[name] for name in ("accuracy", "ci_low", "ci_high", "rows"))
    return [
        compute_verdict(p, low, high, rows=n, limit=target) for p, low, high, n in zip(*columns, strict=True)
    ]


def _out_of_reach(found: pd.DataFrame, target: float, acceptance: Acceptance) -> str:
    """Return the message that no candidate reaches the target."""
    if acceptance == "not_refuted":
        best = found.sort_values("accuracy", kind="stable").iloc[0]
        return (
            f"No setting brings the blind attacker to {target}: the lowest is {best['accuracy']:.3f} with "
            f"{best['rows']} rows ({best['method']}). Allow more, or refine with further scorers."
        )
    nearest = found.sort_values("ci_high", kind="stable").head(1)
    best, (one,) = nearest.iloc[0], judged(nearest, target)
    return (
        f"No setting is shown to bring the blind attacker to {target}: the lowest interval ends at "
        f"{best['ci_high']:.3f}, around {best['accuracy']:.3f} with {best['rows']} rows ({best['method']}), "
        f"{one}. Allow more, give more rows, refine with further scorers, or ask for what is merely "
        f"not refuted (acceptance not_refuted)."
    )


def stacked(scorers: Sequence[str], *, folds: int, seed: int) -> Attack:
    """Return the attacker that stacks the scorers (``attack.best_blind_attacker``), over all rows.

    Its figures are NaN where there are too few rows to learn from.
    """

    def attack(rows: pd.DataFrame) -> tuple[float, float, float]:
        if not has_enough_images(rows):
            return np.nan, np.nan, np.nan
        overall = run_caption_attack(rows, scorers, folds=folds, seed=seed).figures[BEST]["overall"]
        return overall["micro"], overall["ci_low"], overall["ci_high"]

    return attack
