"""Compute bounds of Group on the assembled instances, from an exact reader and a bag-of-words reader.

Both readers decode the images of the embedded world without errors. What they miss is therefore not visible
in the images.

- The exact reader decides whether a caption is true of an image.
- The bag-of-words reader checks each word by itself and how often it occurs: a noun, colour, size or position
  of some object, or a relation between some two objects. It does not know which colour belongs to which noun,
  or which object is left of which.

Ties are broken at random. Where a reader finds both captions equally true of both images, Group is 1 in 6.
The module also counts the instances on which models differ.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from caramel.evaluation.results.bound_columns import BOUND_COLUMNS
from caramel.evaluation.results.run_hits import RunHits
from caramel.evaluation.results.summary import BASE, build_subset_masks
from caramel.io.image_codec import decode_center_crop
from caramel.io.image_store import ImageStore
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.sources.world.drawing import CANVAS
from caramel.sources.world.exact_reader import read_images
from caramel.sources.world.grammar import parse_caption
from caramel.sources.world.scenes import Meaning, SceneObject, is_true_of_objects, list_positions
from caramel.utils.arrays import Bools, Floats


def compute_bounds(runs: RunHits, assembled: Path, *, allow_unmentioned_objects: bool) -> pd.DataFrame:
    """Return Group of the base and of both readers by subset of one form: ``BOUND_COLUMNS``.

    - ``base``, ``words`` and ``exact`` are shares in [0, 1]. ``words`` and ``exact`` are NaN where the captions
      are not sentences of the world.
    - ``base_differs`` counts the instances on which some fine-tuned run differs from the base.
    - ``runs_differ`` counts the instances on which two fine-tuned runs differ.
    - ``n`` counts the instances that all models scored.

    Args:
        runs: hits of the base and the fine-tuned models on one form of the instances; Group is among the metrics.
        assembled: folder of the form's table and of table ``images``.
        allow_unmentioned_objects: whether an image may show more than its caption says.
    """
    groups = {model: hits[:, 0] for model, hits in runs.select_metrics(["group"]).hits.items()}
    base = groups.pop(BASE)
    others = np.stack(list(groups.values())) if groups else base[None]
    scored = ~np.isnan(np.vstack([base, others])).any(axis=0)
    instances = read_table(INSTANCES, assembled / f"{runs.benchmark}.parquet")
    chosen = instances.set_index("instance_id").loc[runs.rows["instance_id"].to_numpy()[scored]]
    words, exact = (np.full(len(base), np.nan) for _ in range(2))
    words[scored], exact[scored] = read_group(
        chosen, assembled / "images.parquet", allow_unmentioned_objects=allow_unmentioned_objects
    )
    differ = (others != base).any(axis=0), (others != others[0]).any(axis=0)
    rows = []
    for subset, mask in build_subset_masks(runs.rows).items():
        which = mask & scored
        shares = [float(of[which].mean()) if which.any() else np.nan for of in (base, words, exact)]
        rows.append(
            (runs.benchmark, subset, int(which.sum()), *shares, *(int((of & which).sum()) for of in differ))
        )
    return pd.DataFrame(rows, columns=list(BOUND_COLUMNS))


def read_group(
    instances: pd.DataFrame, images: Path, *, allow_unmentioned_objects: bool
) -> tuple[Floats, Floats]:
    """Return each instance's probability of Group, (n,), for the bag-of-words reader and for the exact reader.

    All values are NaN if any caption of the instances is not a sentence of the world.

    Args:
        instances: two captions and two images per instance.
        images: path of table ``images``.
        allow_unmentioned_objects: as in ``compute_bounds``.
    """
    captions = instances[["caption", "negative_caption"]].to_numpy()
    readings = [[parse_caption(str(text)) for text in pair] for pair in captions]
    if not all(reading for pair in readings for reading in pair):
        return np.full(len(instances), np.nan), np.full(len(instances), np.nan)
    names = instances[["image_id", "negative_image_id"]].to_numpy()
    image_objects = _read_images(list(dict.fromkeys(names.ravel().tolist())), images)
    expected = []
    for reader in (has_words, _is_true):
        scores = np.zeros((len(instances), 2, 2))
        for row, (pair, pictures) in enumerate(zip(readings, names, strict=True)):
            for (c, reading), (i, name) in itertools.product(enumerate(pair), enumerate(pictures)):
                objects = image_objects[name]
                if reading is None or objects is None:
                    continue
                exactly = reading.alone or not allow_unmentioned_objects
                fits = not exactly or len(objects) == len(reading.whole.mentions)
                scores[row, c, i] = fits and reader(reading.whole, objects)
        expected.append(compute_expected_group(scores))
    return expected[0], expected[1]


def _read_images(names: Sequence[str], images: Path) -> dict[str, tuple[SceneObject, ...] | None]:
    """Return the objects of each image; None for an image with an unreadable cell."""
    known = ImageStore(images, read_table(IMAGES, images))
    readings = read_images(np.stack([decode_center_crop(known[name], name, CANVAS) for name in names]))
    return {
        name: None if of.unreadable else of.scene.things for name, of in zip(names, readings, strict=True)
    }


def _is_true(meaning: Meaning, objects: tuple[SceneObject, ...]) -> bool:
    return is_true_of_objects(meaning, objects, exactly=False)


def has_words(meaning: Meaning, objects: tuple[SceneObject, ...]) -> bool:
    """Return whether each word of a caption, counted with repetitions, is true of some object in the image."""
    mentions, pairs = meaning.mentions, list(itertools.combinations(objects, 2))
    beside, above = (
        any(getattr(a, axis) != getattr(b, axis) for a, b in pairs) for axis in ("column", "row")
    )
    related = all(beside if r.predicate in ("left", "right") else above for r in meaning.relations)
    words = Counter(w for m in mentions for w in (m.noun, m.colour, m.size, m.position) if w is not None)
    image_words = Counter(w for t in objects for w in (t.noun, t.colour, t.size, *list_positions(t)))
    return related and words <= image_words


def compute_expected_group(scores: Floats) -> Floats:
    """Return the probability of Group, (n,), for scores (n, captions, images) in {0, 1} with ties broken at random."""
    flat = scores.reshape(len(scores), 4)
    hits: list[Bools] = []
    for order in itertools.permutations(range(4)):
        c0_i0, c0_i1, c1_i0, c1_i1 = (flat + np.array(order) / 8).T
        hits.append(np.minimum(c0_i0, c1_i1) > np.maximum(c0_i1, c1_i0))
    expected: Floats = np.mean(hits, axis=0)
    return expected
