"""Attack pairs of images without captions: attackers that predict which image of an instance is the negative one.

- ``features``: a learned combination of hand-made features. It scores each image by itself.
- ``network``: a small network on pixels. It scores each image by itself.
- ``siamese``: compares both images of a pair (``image.pairs``).

All are tested out of fold, type by type as the blind scorers of texts are: the artifacts of one type would
otherwise hide the artifacts of another. The order of the images in a pair has no effect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from caramel.blind.cross_validation import Learn, fit_pair_weights, score_out_of_fold
from caramel.blind.image.features import compute_features
from caramel.blind.image.network import NETWORK_CAP, SIDE, fit_predict_network
from caramel.blind.image.pairs import pair_scores
from caramel.io.image_codec import decode_center_crop
from caramel.runtime.ray.sharded_map import map_in_threads
from caramel.utils.arrays import Floats, Ints
from caramel.utils.resampling import CrossValidation

CAP = 20_000  # maximum number of training pairs per fold
COST = 1.0  # inverse strength of the L2 penalty
FEWEST = 20  # minimum number of groups of a type; types with fewer are not attacked
ATTACKERS = ("features", "network", "siamese")
Scores = tuple[Floats, Floats]  # scores of the true and of the negative images, in [0, 1]; NaN: not attacked


class DistinctImages(NamedTuple):
    """The distinct images of a set of pairs, each measured and decoded once.

    Attributes:
        names: SHA-256 of each file, sorted.
        features: (k, d), in the order of ``FEATURES``.
        pixels: (k, SIDE, SIDE, 3).
        equal: (k,) id of the image; files with equal pixels share an id.
    """

    names: list[str]
    features: Floats
    pixels: npt.NDArray[np.uint8]
    equal: Ints

    def find_indices(self, images: Sequence[bytes], negatives: Sequence[bytes]) -> Ints:
        """Return the indices of both sides' images among the distinct images. (2, n)."""
        index = {name: i for i, name in enumerate(self.names)}
        return np.array(
            [[index[_hash_bytes(data)] for data in side] for side in (images, negatives)], dtype=np.int64
        )


def decode_images(*columns: Sequence[bytes]) -> DistinctImages:
    """Return the distinct images of columns of encoded files, without keeping the files in memory.

    Errors are those of ``compute_features``.
    """
    first: dict[str, tuple[Sequence[bytes], int]] = {}  # SHA-256 -> column and index of the file's first use
    for files in columns:
        for index, data in enumerate(files):
            first.setdefault(_hash_bytes(data), (files, index))

    def measure_image(name: str) -> tuple[Floats, npt.NDArray[np.uint8]]:
        files, index = first[name]
        data = files[index]
        return compute_features(data, name), decode_center_crop(data, name, SIDE)

    results = dict(
        zip(first, map_in_threads(measure_image, list(first)), strict=True)
    )  # in the order of the files
    names = sorted(results)
    stack = np.stack([results[name][1] for name in names])
    equal = np.unique([_hash_bytes(image.tobytes()) for image in stack], return_inverse=True)[1]
    return DistinctImages(
        names, np.stack([results[name][0] for name in names]), stack, equal.astype(np.int64)
    )


def _hash_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def attack_images(
    images: DistinctImages, sides: Ints, types: Sequence[str], cv: CrossValidation
) -> dict[str, Scores]:
    """Return each attacker's scores of both sides' images, (n,) and (n,), type by type.

    The order of the images in a pair has no effect. A fold does not train on a pair with an image that it
    scores. The scores of ``siamese`` are the probabilities that each image of the pair is the true one.

    Args:
        images: all images.
        sides: (2, n) indices of the true and of the negative images among them.
        types: type of each row. Types of fewer than ``FEWEST`` groups are not attacked; their scores are NaN.
        cv: folds of the pairs.
    """
    learners: dict[str, tuple[Learn, int]] = {
        "features": (partial(_fit_predict_features, images.features), CAP),
        "network": (partial(fit_predict_network, images.pixels, seed=cv.seed), NETWORK_CAP),
    }
    attacker_scores = {name: np.full(sides.shape, np.nan) for name in ATTACKERS}
    names, type_array = np.array(cv.groups, dtype=object), np.array(types, dtype=object)
    for one in dict.fromkeys(types):
        here = type_array == one
        if len(set(names[here])) < FEWEST:
            continue
        of_type = replace(cv, groups=names[here].tolist())
        for name, (learn, cap) in learners.items():
            attacker_scores[name][:, here] = score_out_of_fold(
                images.names,
                sides[:, here],
                of_type,
                learn,
                cap=cap,
                texts=images.equal,
            )
        attacker_scores["siamese"][:, here] = pair_scores(
            images.features,
            images.equal,
            sides[:, here],
            of_type,
            cap=CAP,
        )
    return {name: (scores[0], scores[1]) for name, scores in attacker_scores.items()}


def compute_pair_hits(scores: Scores) -> Floats:
    """Return for each pair 1 if the true image scores higher, 0 if the negative image does, 0.5 for a tie. (n,)."""
    return np.asarray((1 + np.sign(scores[0] - scores[1])) / 2)


def _fit_predict_features(features: Floats, learned: Ints, scored: Ints) -> Floats:
    """Return values of the scored images: features weighted by a logistic regression on pairs; see ``Learn``."""
    weights = fit_pair_weights(features[learned[0]] - features[learned[1]], cost=COST)
    return np.asarray(features[scored] @ weights)
