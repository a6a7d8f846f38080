"""Which images of one split stand in another under another name: by their bytes, and photographs by what they show.

Equal files have equal SHA-256. A photograph that was encoded or scaled anew has another one, but nearly the same perceptual
hash: the signs of the lowest frequencies of its brightness, as in pHash (Zauner, Implementation and Benchmarking of
Perceptual Image Hash Functions, 2010), 255 of them where that has 64.

Hashes of which 24 bits differ or fewer are taken for one picture's. Of 3,000 different pictures with the spectrum of photographs
(1,500,000 pairs) no two were nearer than 81 bits, of 54 windows of photographs 97; of 958 that show one block on a slope four
of 458,000 pairs were, by 20 to 24. Of pictures like photographs all are found again after JPEG of quality 30, or a quarter of
the side and JPEG of quality 60 (of the windows 87 and 61 %), after 2 % are cropped 75 to 79 % (46 %), after 5 % and mirrored
none. Of 1,000 scenes of the embedded world 81 of 499,500 pairs were taken for one picture, so that they, and what is drawn of
captions, are compared by their bytes alone. ``bench/equal_pictures.py`` counts anew.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd
from PIL import Image

from caramel.gates.split_leakage import find_in_other_split
from caramel.utils.arrays import Ints

PHOTOGRAPHS = "files"  # ``source`` of images whose perceptual hashes are compared
MAX_HAMMING_DISTANCE = 24  # of 255 bits, in which two hashes of one picture differ at most
FREQUENCIES, SIDE = 16, 32  # of a hash, per axis; pixels that the picture is scaled to
LEAST_STRENGTH = (
    1.0  # median of the frequencies, in grey levels; with less, rounding decides about signs: no hash
)
_WORDS = FREQUENCIES**2 // 64
_ROWS = 64  # hashes that are compared with all others at a time

Hashes = npt.NDArray[np.uint64]


def compute_perceptual_hash(image: Image.Image) -> bytes | None:
    """Return 256 bits, the signs of a picture's lowest frequencies; None: too many of these are next to nothing.

    The first bit, of the mean, is always set. What is even, symmetric or of one gradient has few frequencies, and no hash.
    """
    from scipy.fft import dctn

    grey = np.asarray(image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX), np.float64)
    lowest = dctn(grey, norm="ortho")[:FREQUENCIES, :FREQUENCIES]
    if np.median(np.abs(lowest)) < LEAST_STRENGTH:
        return None
    return np.packbits(lowest > 0).tobytes()


def find_near_duplicates(images: pd.DataFrame) -> pd.DataFrame:
    """Return where another split has an image too.

    Args:
        images: table ``images`` with ``perceptual_hash``, null where none is to be compared.

    Returns:
        image_id, split; ``same_file_in``, ``same_picture_in``: "SPLIT: IMAGE_ID" of the first in another split with equal
        bytes, or with a hash that differs in ``MOST_APART`` bits or fewer; null if none is.
    """
    named = images[["image_id", "split"]].reset_index(drop=True)
    hashed = np.flatnonzero(images["perceptual_hash"].notna())
    hashes = np.frombuffer(b"".join(images["perceptual_hash"].iloc[hashed]), np.uint64).reshape(-1, _WORDS)
    match_index = find_similar_hashes(hashes, named["split"].to_numpy(str)[hashed])
    labels = (named["split"] + ": " + named["image_id"]).to_numpy(object)
    same_picture = np.full(len(named), None, object)
    same_picture[hashed[match_index >= 0]] = labels[hashed[match_index[match_index >= 0]]]
    files = pd.factorize(images["sha256"])[0]
    return named.assign(
        same_file_in=find_in_other_split(named, "image_id", files), same_picture_in=same_picture
    )


def find_similar_hashes(hashes: Hashes, splits: npt.NDArray[np.str_]) -> Ints:
    """Return the place of a hash of another split from which few enough bits differ, or -1.

    Args:
        hashes: shape (n, 4).
        splits: of each, shape (n,).
    """
    match_index = np.full(len(hashes), -1)
    for one, other in combinations([np.flatnonzero(splits == name) for name in np.unique(splits)], 2):
        for start in range(0, len(one), _ROWS):
            rows = one[start : start + _ROWS]
            # Numbers of bits are bytes: 255 at most, as the first bit is set in all.
            distances = sum(np.bitwise_count(hashes[rows, None, w] ^ hashes[other, w]) for w in range(_WORDS))
            near = distances <= MAX_HAMMING_DISTANCE
            if near.any():
                for queries, others, hits in ((rows, other, near), (other, rows, near.T)):
                    met = hits.any(axis=1) & (match_index[queries] < 0)
                    match_index[queries[met]] = others[hits[met].argmax(axis=1)]
    return match_index
