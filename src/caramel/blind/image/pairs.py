"""An attacker that compares the two pictures of a pair: a siamese one.

Whether the first of two pictures is the true one it says by the difference of their features, and by that
difference times what the pair is like, the mean of both. Turning a pair round turns the sign of all of these, and of
the answer. So it finds what no value of a single picture tells: in dark pairs the negative is the brighter one, in light
pairs the darker one.
"""

from __future__ import annotations

import numpy as np

from caramel.blind.cross_validation import fit_pair_weights, group_folds
from caramel.utils.arrays import Floats, Ints
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.resampling import CrossValidation

COST = 0.03  # inverse strength of the L2 penalty: there are d + d² weights of d features


def pair_scores(features: Floats, equal: Ints, sides: Ints, cv: CrossValidation, *, cap: int) -> Floats:
    """Return P(the first is the true one) of each pair and P(the second is), learned on the other folds. (2, n).

    No pair is learned from that holds a picture that is to be scored.

    Args:
        features: (k, d) of the pictures.
        equal: (k,) number of each picture; those of equal pixels have one.
        sides: (2, n) places of the true and of the negative picture of each pair.
        cv: folds of the pairs.
        cap: pairs to learn from, per fold, at most.
    """
    # By what tells a pair, so that the order of the rows changes nothing.
    order = np.argsort(
        compute_stable_keys(
            (f"{g}\n{a}\n{b}" for g, a, b in zip(cv.groups, *sides.tolist(), strict=True)), cv.seed
        )
    )
    values = np.zeros(sides.shape[1])
    for here, learned in group_folds(cv):
        alone = ~np.isin(equal[sides], equal[sides[:, here]]).any(axis=0)
        drawn = order[(learned & alone)[order]][:cap]
        if not len(drawn):
            continue
        scaled = _standardise_features(features, sides[:, drawn])
        weights = fit_pair_weights(_build_antisymmetric_features(scaled[sides[:, drawn]]), cost=COST)
        values[here] = _build_antisymmetric_features(scaled[sides[:, here]]) @ weights
    first = 1 / (1 + np.exp(-values.clip(-500, 500)))
    return np.stack([first, 1 - first])


def _standardise_features(features: Floats, learned: Ints) -> Floats:
    """Return the features with mean 0 and spread 1 over the pictures to learn from; what does not vary is 0."""
    known = features[np.unique(learned)]
    spread = known.std(axis=0)
    varies = spread > 1e-9 * np.abs(known).max(axis=0)
    return np.where(varies, (features - known.mean(axis=0)) / np.where(varies, spread, 1.0), 0.0)


def _build_antisymmetric_features(pairs: Floats) -> Floats:
    """Return what turns its sign when a pair is turned round, (2, n, d) -> (n, d + d²)."""
    difference, mean = pairs[0] - pairs[1], (pairs[0] + pairs[1]) / 2
    products = difference[:, :, None] * mean[:, None, :]
    return np.hstack([difference, products.reshape(len(difference), -1)])
