"""Adapt blind text scorers to the model interface, to measure how well a benchmark is solved without images."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from caramel.blind.scorer_specs import can_see_both, load_scorer, missing_scorer
from caramel.interfaces.model import Family, Floats
from caramel.interfaces.scorer import Scorer
from caramel.utils.resampling import CrossValidation

FOLDS, SEED = 5, 3  # the defaults of `caramel audit`


@dataclass(frozen=True)
class BlindScorer:
    """A ``BlindModel`` that runs a blind scorer; scores are in [0, 1], and higher means more likely true.

    A learned scorer trains on the benchmark itself, by cross-validation over images. It is an attack with
    knowledge of how the benchmark was made, not a model that was trained before.
    """

    name: str
    scorer: Scorer
    sees_both: bool = False

    def score_texts(
        self, positives: Sequence[str], negatives: Sequence[str], groups: Sequence[str]
    ) -> tuple[Floats, Floats]:
        """Return the scores of n true captions and of n negatives, (n,) each; see ``Scorer``."""
        return self.scorer(positives, negatives, CrossValidation(groups, FOLDS, SEED))


def load_blind(target: str, *, device: str, precision: str, name: str) -> BlindScorer:
    """Return the blind scorer of a spec; see ``blind.scorer_specs``. Device and precision have no effect.

    Raises:
        BackendError: there is no scorer with that name (the message lists the choices), or its model is
            missing.
    """
    return BlindScorer(name, load_scorer(target, both=True), can_see_both(target))


BLIND = Family(
    "blind",
    "blind",
    "SCORER",
    "without the image; see `caramel audit --help`",
    load=load_blind,
    missing=functools.partial(missing_scorer, both=True),
)
