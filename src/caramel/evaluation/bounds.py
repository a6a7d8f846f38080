"""What Group can be on the assembled instances: of a reader of words without order, of an exact reader, and where models differ.

Both readers read the pictures of the embedded world without an error, so that what they miss is not to be seen in them. The
exact reader knows whether a caption is true. The reader of words knows of each word by itself whether the picture shows it: a noun, a
colour, a size or a position of some object, a relation of some two objects; and how often each is said. It knows neither which
colour belongs to which noun nor which object stands left of which. Ties are broken at random: where both readers find the
two captions equally true of both pictures, Group is 1 in 6.
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
    """Return Group of base and readers by subset of one form, and on how many instances models differ: ``BOUND_COLUMNS``.

    ``base``, ``words`` and ``exact`` are shares in [0, 1], the readers' NaN where the captions are not of the world.
    ``base_differs`` counts instances on which some fine-tuned run and the base differ, ``runs_differ`` those on which two
    fine-tuned runs do. ``n`` counts the instances that all models scored.

    Args:
        runs: the base and the fine-tuned ones, on a form of the instances, by Group among others.
        assembled: folder of the form's table and of ``images``.
        allow_unmentioned_objects: whether a picture may show more than its caption says.
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
    """Return the chance of Group of each instance, (n,), of the reader of words and of the exact reader.

    NaN where a caption of the instances is no sentence of the world.

    Args:
        instances: captions and images, two of each.
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
    """Return the objects of each image; None where a cell cannot be read."""
    known = ImageStore(images, read_table(IMAGES, images))
    readings = read_images(np.stack([decode_center_crop(known[name], name, CANVAS) for name in names]))
    return {
        name: None if of.unreadable else of.scene.things for name, of in zip(names, readings, strict=True)
    }


def _is_true(meaning: Meaning, objects: tuple[SceneObject, ...]) -> bool:
    return is_true_of_objects(meaning, objects, exactly=False)


def has_words(meaning: Meaning, objects: tuple[SceneObject, ...]) -> bool:
    """Return whether each word of a caption, by itself and as often as it is said, is true of something that is shown."""
    mentions, pairs = meaning.mentions, list(itertools.combinations(objects, 2))
    beside, above = (
        any(getattr(a, axis) != getattr(b, axis) for a, b in pairs) for axis in ("column", "row")
    )
    related = all(beside if r.predicate in ("left", "right") else above for r in meaning.relations)
    words = Counter(w for m in mentions for w in (m.noun, m.colour, m.size, m.position) if w is not None)
    image_words = Counter(w for t in objects for w in (t.noun, t.colour, t.size, *list_positions(t)))
    return related and words <= image_words


def compute_expected_group(scores: Floats) -> Floats:
    """Return the chance of Group, (n,), where ties among scores (n, captions, images) in {0, 1} are broken at random."""
    flat = scores.reshape(len(scores), 4)
    hits: list[Bools] = []
    for order in itertools.permutations(range(4)):
        c0_i0, c0_i1, c1_i0, c1_i1 = (flat + np.array(order) / 8).T
        hits.append(np.minimum(c0_i0, c1_i1) > np.maximum(c0_i1, c1_i0))
    expected: Floats = np.mean(hits, axis=0)
    return expected
