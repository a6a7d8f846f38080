"""Which hole of a data set is the largest: on which task, learned from where, attackers are furthest above chance.

Tasks have different chances, so what is compared is the share of the way from chance to always right,
(accuracy − chance) / (1 − chance): 0 for who cannot tell, 1 for who always can, as Cohen's (1960) kappa does. The attacker
is the one that was named beforehand, all scorers together: the best of many would be above chance by being chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from caramel.audit.attackers.attack import BEST, Attack
from caramel.audit.audit import Audit
from caramel.blind.scorers import DECIMALS

IMAGES = "images"


class Hole(NamedTuple):
    """How far above chance attackers are on one task.

    Attributes:
        task: name of a task, or ``images by ATTACKER``: which of the two images is the true one.
        source: name of the data set that was learned from; None: the audited one, by cross-validation.
        chance: in (0, 1).
        accuracy: over all rows, in [0, 1], with its 95 % interval.
        excess: share of the way from chance to always right; below 0 it is worse than chance.
        excess_low, excess_high: the ends of the interval, so expressed.
    """

    task: str
    source: str | None
    chance: float
    accuracy: float
    ci_low: float
    ci_high: float
    excess: float
    excess_low: float
    excess_high: float


def holes(result: Audit) -> list[Hole]:
    """Return all holes of a data set, the largest first."""
    found = [hole_of(attack) for attack in result.attacks]
    if result.images is not None:
        for name, figures in result.images.figures.items():
            overall = figures["overall"]
            found.append(_hole(f"{IMAGES} by {name}", None, 0.5, overall["micro"], overall))
    return sorted(found, key=lambda hole: -hole.excess)


def hole_of(attack: Attack) -> Hole:
    """Return how far above chance all scorers together are on a task."""
    overall = attack.figures[BEST]["overall"]
    return _hole(attack.task.name, attack.source, attack.task.chance, overall["micro"], overall)


def learned_from(source: str | None) -> str:
    """Return in words where attackers learned."""
    return "its other folds" if source is None else source


def _hole(task: str, source: str | None, chance: float, accuracy: float, figure: Mapping[str, float]) -> Hole:
    shares = (accuracy, figure["ci_low"], figure["ci_high"])
    excess = ((share - chance) / (1 - chance) for share in shares)
    return Hole(task, source, round(chance, DECIMALS), *shares, *(round(share, DECIMALS) for share in excess))
