"""Find images that occur in two splits under different names, by their bytes and by perceptual hashes.

Equal files have equal SHA-256. A photograph that was encoded or scaled again has a different SHA-256, but nearly
the same perceptual hash: the signs of the lowest frequencies of its brightness, as in pHash (Zauner,
Implementation and Benchmarking of Perceptual Image Hash Functions, 2010). This hash has 255 bits, pHash has 64.

Two hashes that differ in at most 24 bits count as one image. ``bench/equal_pictures.py`` measures again:

- False matches, images with the spectrum of photographs: none. The nearest of 3,000 different images
  (1,500,000 pairs) differ in 81 bits, the nearest of 54 windows of photographs in 97.
- False matches, 958 images of one block on a slope: four of 458,000 pairs, which differ in 20 to 24 bits.
- False matches, 1,000 scenes of the embedded world: 81 of 499,500 pairs. Scenes, and images drawn from captions,
  are therefore compared by their bytes only.
- Copies found after JPEG of quality 30: all images like photographs, and 87 % of the windows.
- Copies found after scaling to a quarter of the side and JPEG of quality 60: all, and 61 %.
- Copies found after cropping 2 %: 75 to 79 %, and 46 %. After cropping 5 %, or mirroring: none.
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
MAX_HAMMING_DISTANCE = 24  # of 255 bits: two hashes of one image differ in at most so many
FREQUENCIES, SIDE = 16, 32  # frequencies of a hash per axis; side in pixels that the image is scaled to
LEAST_STRENGTH = (
    1.0  # median of the frequencies, in grey levels; below it, rounding decides the signs: no hash
)
_WORDS = FREQUENCIES**2 // 64
_ROWS = 64  # hashes that are compared with all others in one step

Hashes = npt.NDArray[np.uint64]


def compute_perceptual_hash(image: Image.Image) -> bytes | None:
    """Return 256 bits, the signs of an image's lowest frequencies; None if too many frequencies are near zero.

    The first bit is the sign of the mean and is always set. An image of one colour, a symmetric image or a single
    gradient has few frequencies, and no hash.
    """
    from scipy.fft import dctn

    grey = np.asarray(image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX), np.float64)
    lowest = dctn(grey, norm="ortho")[:FREQUENCIES, :FREQUENCIES]
    if np.median(np.abs(lowest)) < LEAST_STRENGTH:
        return None
    return np.packbits(lowest > 0).tobytes()


def find_near_duplicates(images: pd.DataFrame) -> pd.DataFrame:
    """Return for each image its first duplicate in another split.

    Args:
        images: table ``images`` with ``perceptual_hash``; a null hash is not compared.

    Returns:
        A table with the columns ``image_id``, ``split``, ``same_file_in`` and ``same_picture_in``. The last two hold
        "SPLIT: IMAGE_ID" of the first image in another split with equal bytes, or with a hash that differs in at
        most ``MAX_HAMMING_DISTANCE`` bits. They are null if there is no such image.
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
    """Return for each hash the index of a similar hash of another split, or -1. (n,).

    Two hashes are similar if they differ in at most ``MAX_HAMMING_DISTANCE`` bits.

    Args:
        hashes: shape (n, 4).
        splits: split of each hash, shape (n,).
    """
    match_index = np.full(len(hashes), -1)
    for one, other in combinations([np.flatnonzero(splits == name) for name in np.unique(splits)], 2):
        for start in range(0, len(one), _ROWS):
            rows = one[start : start + _ROWS]
            # Distances fit into a byte: they are at most 255, since the first bit is set in all hashes.
            distances = sum(np.bitwise_count(hashes[rows, None, w] ^ hashes[other, w]) for w in range(_WORDS))
            near = distances <= MAX_HAMMING_DISTANCE
            if near.any():
                for queries, others, hits in ((rows, other, near), (other, rows, near.T)):
                    met = hits.any(axis=1) & (match_index[queries] < 0)
                    match_index[queries[met]] = others[hits[met].argmax(axis=1)]
    return match_index
