"""Tables of the suites on the benchmark: its training set, the uses and files of its images, and attackers on them."""

from __future__ import annotations

import pandas as pd

from caramel.errors import DataError
from caramel.gates.caption_tables import add_score_gaps
from caramel.gates.near_duplicate_images import PHOTOGRAPHS, compute_perceptual_hash
from caramel.io.image_codec import decode_image
from caramel.io.image_store import ImageStore
from caramel.utils.grouping import merge_groups


def expand_negatives(training: pd.DataFrame) -> pd.DataFrame:
    """Return a training set with one row per negative, numbered from 0 within its pair by ``place``.

    A pair without negatives gives one row, whose negative is null.
    """
    rows = training.explode(["negative_captions", "negative_image_ids", "subtypes"], ignore_index=True)
    return rows.assign(place=rows.groupby("pair_id").cumcount())


def list_image_uses(instances: pd.DataFrame, trained: pd.DataFrame, images: pd.DataFrame) -> pd.DataFrame:
    """Return one row per distinct use of an image: ``image_id``, ``split``, ``used_in``, ``missing_image``.

    ``missing_image`` is the ``image_id`` if table ``images`` lacks it, else null.
    """
    uses = [images[["image_id", "split"]].assign(used_in="images")]
    for name, rows, column in (
        ("instances", instances, "image_id"),
        ("instances", instances, "negative_image_id"),
        ("training", trained, "image_id"),
        ("training", trained, "negative_image_ids"),
    ):
        use = rows[[column, "split"]].rename(columns={column: "image_id"})
        uses.append(use.dropna(subset="image_id").assign(used_in=f"{name}.{column}"))
    table = pd.concat(uses, ignore_index=True).drop_duplicates(ignore_index=True)
    known = table["image_id"].isin(images["image_id"])
    return table.assign(missing_image=table["image_id"].mask(known))


def add_image_checks(images: pd.DataFrame, image_store: ImageStore) -> pd.DataFrame:
    """Return the images with ``image_ok`` and ``perceptual_hash``.

    ``image_ok`` says whether the file decodes to the size in its row. Only photographs have a perceptual hash.

    Raises:
        DataError: a shard is missing, or a file in it does not match the image's SHA-256.
    """
    rows = images[["image_id", "width", "height", "source"]].itertuples(index=False, name=None)
    checks = [
        _inspect_image(image_store.read_verified(name), (width, height), source == PHOTOGRAPHS)
        for name, width, height, source in rows
    ]
    opened = pd.DataFrame(checks, index=images.index, columns=["image_ok", "perceptual_hash"])
    return images.assign(
        image_ok=opened["image_ok"].astype("bool"), perceptual_hash=opened["perceptual_hash"]
    )


def _inspect_image(data: bytes, size: tuple[int, int], hashed: bool) -> tuple[bool, bytes | None]:
    """Return whether an encoded file decodes to an image of this size, and its hash if ``hashed``."""
    try:
        image = decode_image(data, "")
    except DataError:
        return False, None
    return image.size == size, compute_perceptual_hash(image) if hashed else None


def build_image_attack_tables(rows: pd.DataFrame, scores: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of the suites on image-only attackers: suite -> rows with their gaps.

    - ``attacked_images``: all rows. Column ``attacked`` is null if the type had too few instances to attack.
    - ``blind_images``: the attacked rows, if there are any. Column ``tied`` groups rows that share an image or a
      caption.
    """
    scored = add_score_gaps(rows, scores, exempt=())
    attacked = rows["negative_id"].where(rows["negative_id"].isin(scores["negative_id"]))
    suite_tables = {"attacked_images": scored.assign(attacked=attacked)}
    if attacked.notna().any():
        judged = scored[attacked.notna()]
        ties = merge_groups(
            judged["image_id"].tolist(), judged["negative_image_id"].tolist(), judged["caption"].tolist()
        )
        suite_tables["blind_images"] = judged.assign(tied=ties)
    return suite_tables
