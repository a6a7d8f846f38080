"""Decide whether an attacker's accuracy is low enough. Acceptance is a claim, and is tested as one.

With few rows nothing can be refuted, so a set must not be accepted just because no shortcut was shown. The
hypothesis to reject is that the attacker's accuracy is above the limit: the upper end of the interval must be
at most the limit (the one-sided half of an equivalence test, as two one-sided tests by intervals; Schuirmann
1987, Westlake 1981). The interval is the two-sided 95 % interval that is reported with the accuracy
everywhere. Of the sets whose attacker is right exactly as often as the limit, 2.5 % are accepted. If several
attackers must all be accepted, the level stays the same (Berger 1982).

The old rule, "not shown to be above the limit", is ``not_refuted``: a warning for sets that are too small for
a claim.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

from caramel.utils.stats import Z

Acceptance = Literal["equivalence", "not_refuted"]
State = Literal["accepted", "undecided", "refused"]

STATES: tuple[State, ...] = get_args(State)  # best first
CHANCE = 0.5
POWER = 0.8  # share of sets that should be accepted if the attacker is at chance
Z_POWER = 0.8416212335729143  # quantile of the normal distribution at POWER


class Verdict(NamedTuple):
    """What an interval says about a limit.

    ``state`` is ``accepted`` if the whole interval is at most the limit, and ``refused`` if all of it is
    above. Otherwise it is ``undecided``, also for an unknown accuracy. ``needed`` is the number of rows, as
    dependent as these, with which sets are accepted with probability ``POWER`` if the attacker is at chance.
    None: no number is enough.
    """

    state: State
    limit: float
    rows: int
    needed: int | None

    def is_passing(self, acceptance: Acceptance) -> bool:
        """Return whether the rows pass by the rule of that name."""
        return self.state == "accepted" or (self.state == "undecided" and acceptance == "not_refuted")

    def __str__(self) -> str:
        limit = f"{100 * self.limit:.1f} %"
        if self.state == "accepted":
            return f"accepted: shown to be at most {limit}"
        if self.state == "refused":
            return f"refused: shown to be above {limit}"
        if self.needed is None:
            return f"undecided: no number of rows like these would show an attacker at chance to be at most {limit}"
        chance = f"an attacker at chance is accepted in {100 * POWER:.0f} % of cases"
        if self.rows < self.needed:
            return (
                f"undecided about {limit}: too few rows; {chance} from about {self.needed:,} rows like these on, "
                f"and there are {self.rows:,}"
            )
        return (
            f"undecided about {limit}: {chance} from about {self.needed:,} rows like these on, and there are "
            f"{self.rows:,}, so that this one is rather above chance: fix the rows before adding more"
        )


def compute_verdict(share: float, low: float, high: float, *, rows: int, limit: float) -> Verdict:
    """Return what the 95 % interval of an attacker's accuracy says about the limit.

    Args:
        share, low, high: accuracy and ends of its interval (``stats.share_interval``), in [0, 1]; NaN:
            unknown.
        rows: number of rows behind them.
        limit: the highest accepted accuracy, in [0, 1].
    """
    state: State = "accepted" if high <= limit else "refused" if low > limit else "undecided"
    if not limit > CHANCE or math.isnan(share):
        return Verdict(state, limit, rows, None)
    effective = _effective_sample_size(share, low, high)
    needed = math.ceil(rows * required_sample_size(limit) / effective) if effective > 0 else None
    return Verdict(state, limit, rows, needed)


def required_sample_size(limit: float) -> float:
    """Return how many independent rows an attacker at chance needs to be accepted with probability ``POWER``.

    Wilson's upper end is below the limit L if the share p is below L − z √(L(1 − L)/n). p is normal around
    one half, with variance 1/(4n). ``limit`` is in (0.5, 1].
    """
    return ((Z * math.sqrt(limit * (1 - limit)) + Z_POWER / 2) / (limit - CHANCE)) ** 2


def _effective_sample_size(share: float, low: float, high: float) -> float:
    """Return the number n of independent rows for which Wilson's interval is as wide as this one.

    Its width w is 2z √(pqn + z²/4) / (n + z²) with q = 1 − p: a quadratic equation in n + z².
    """
    square, width, pq = Z**2, high - low, share * (1 - share)
    if not width > 0:
        return math.inf
    return square * (2 * pq + math.sqrt(4 * pq**2 + width**2 * max(0.0, 1 - 4 * pq))) / width**2 - square
