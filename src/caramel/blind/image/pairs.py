"""Score pairs of images with a siamese attacker, which compares the two images of a pair.

It predicts whether the first image is the true one from two inputs:

- the difference of the two images' features
- this difference times the mean of the two images' features, which describes the pair

Swapping the images negates all inputs and the prediction. So the attacker finds shortcuts that no value of a
single image shows. For example, the negative is the brighter image in dark pairs and the darker image in
light pairs.
"""

from __future__ import annotations

import numpy as np

from caramel.blind.cross_validation import fit_pair_weights, group_folds
from caramel.utils.arrays import Floats, Ints
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.resampling import CrossValidation

COST = 0.03  # inverse strength of the L2 penalty; d features have d + d² weights


def pair_scores(features: Floats, equal: Ints, sides: Ints, cv: CrossValidation, *, cap: int) -> Floats:
    """Return P(the first image is true) and P(the second is true) of each pair, trained on the other folds. (2, n).

    A fold does not train on a pair with an image that it scores.

    Args:
        features: (k, d) features of the images.
        equal: (k,) id of each image; images with equal pixels share an id.
        sides: (2, n) indices of the true and of the negative image of each pair.
        cv: folds of the pairs.
        cap: maximum number of training pairs per fold.
    """
    # The key is made from the pair itself, so that the order of the rows does not change the result.
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
    """Return the features with mean 0 and spread 1 over the training images; constant features are 0."""
    known = features[np.unique(learned)]
    spread = known.std(axis=0)
    varies = spread > 1e-9 * np.abs(known).max(axis=0)
    return np.where(varies, (features - known.mean(axis=0)) / np.where(varies, spread, 1.0), 0.0)


def _build_antisymmetric_features(pairs: Floats) -> Floats:
    """Return features that change sign when the images of a pair are swapped. (2, n, d) -> (n, d + d²)."""
    difference, mean = pairs[0] - pairs[1], (pairs[0] + pairs[1]) / 2
    products = difference[:, :, None] * mean[:, None, :]
    return np.hstack([difference, products.reshape(len(difference), -1)])
