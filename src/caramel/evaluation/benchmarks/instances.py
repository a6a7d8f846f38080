"""The benchmark that the pipeline assembles: every similarity of one model over ``instances``.

One table serves SugarCrepe (C0, C1 against I0), SugarCrepe++ (C2 as well) and BiVLC (I1 as
well); what an instance does not have, a paraphrase or a negative image, has null similarities.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel import tables
from caramel.errors import DataError, shown
from caramel.evaluation.embeddings import Embedded, Index, embed
from caramel.models.dual_encoder import DualEncoder, Embeddings

ABSENT = -1  # index of an item that the instance does not have
BLOCK = 8192  # rows whose embeddings are gathered at a time, to bound memory
CAPTIONS = ("caption", "negative_caption", "caption2")  # C0, C1, C2
PICTURES = ("image_id", "negative_image_id")  # I0, I1


def similarities(
    instances: pd.DataFrame, images: pd.DataFrame, encoder: DualEncoder, *, batch: int
) -> pd.DataFrame:
    """Return the ``similarities`` of one model, one row per instance, in the instances' order.

    Args:
        instances: table ``instances``.
        images: table ``images`` with every image that the instances name.
        encoder: the model; its ``name`` fills column ``model``.
        batch: items per forward pass.

    Raises:
        DataError: an image is missing or has no content.
        BackendError: see ``embed``.
    """
    captions, caption_places = _gathered(instances, CAPTIONS)
    image_ids, picture_places = _gathered(instances, PICTURES)
    embedded = embed(encoder, _contents(image_ids, images), captions, batch=batch)
    c0, c1, c2 = (_looked_up(embedded.text_of, caption_places[name]) for name in CAPTIONS)
    i0, i1 = (_looked_up(embedded.image_of, picture_places[name]) for name in PICTURES)
    columns = {
        "instance_id": instances["instance_id"].to_numpy(),
        "model": encoder.name,
        **_against_images(embedded, (c0, c1, c2), (i0, i1)),
        "t_p1_p2": _cosines(embedded.texts, c0, embedded.texts, c2),
        "t_p1_n": _cosines(embedded.texts, c0, embedded.texts, c1),
        "t_p2_n": _cosines(embedded.texts, c2, embedded.texts, c1),
    }
    return tables.frame(tables.SIMILARITIES, pd.DataFrame(columns))


def _gathered(instances: pd.DataFrame, names: tuple[str, ...]) -> tuple[list[str], dict[str, Index]]:
    """Return all values of the columns in one list, and per column each row's place in it."""
    values: list[str] = []
    places = {}
    for name in names:
        present = instances[name].notna().to_numpy()
        places[name] = np.where(present, len(values) + np.cumsum(present) - 1, ABSENT)
        values += instances[name][present].tolist()
    return values, places


def _contents(image_ids: list[str], images: pd.DataFrame) -> list[bytes]:
    """Return the encoded file of each image.

    Raises:
        DataError: an image is not in the table, or has no content.
    """
    known = dict(zip(images["image_id"], images["image"], strict=True))
    lacking = sorted({i for i in image_ids if not (known.get(i) or {}).get("bytes")})
    if lacking:
        raise DataError(
            f"{len(lacking)} images of the instances are missing or empty in the images table:\n"
            f"{shown([repr(i) for i in lacking])}\nRun `dvc repro assemble`."
        )
    return [known[i]["bytes"] for i in image_ids]


def _looked_up(index: Index, places: Index) -> Index:
    """Return the embedding's row per instance, ``ABSENT`` kept."""
    if not len(index):
        return places
    return np.where(places == ABSENT, ABSENT, index[places])


def _against_images(
    embedded: Embedded, captions: tuple[Index, Index, Index], pictures: tuple[Index, Index]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the five caption–image similarities per instance."""
    (c0, c1, c2), (i0, i1) = captions, pictures
    pairs = {
        "s_c0_i0": (c0, i0),
        "s_c1_i0": (c1, i0),
        "s_c2_i0": (c2, i0),
        "s_c0_i1": (c0, i1),
        "s_c1_i1": (c1, i1),
    }
    return {
        name: _cosines(embedded.texts, caption, embedded.images, picture)
        for name, (caption, picture) in pairs.items()
    }


def _cosines(left: Embeddings, a: Index, right: Embeddings, b: Index) -> npt.NDArray[np.float64]:
    """Return the dot product of ``left[a]`` and ``right[b]`` per row, NaN where either is absent.

    Products of float32 are exact in float64, and every row is summed in the same order: two
    captions with equal embeddings tie exactly, whatever rows they stand in.
    """
    result = np.full(len(a), np.nan)
    rows = np.flatnonzero((a != ABSENT) & (b != ABSENT))
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        products = left[a[block]].astype(np.float64) * right[b[block]]
        result[block] = products.sum(axis=1)
    return result
