"""Whether instances of one name ask the same in all files: by the hashes of their texts and images, where these are known."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from caramel.benchmarks.content import IMAGES_HASH, TEXTS_HASH
from caramel.errors import DataError, format_items

KEY = ["benchmark", "instance_id"]


def check_contents(parts: Sequence[pd.DataFrame]) -> None:
    """Raise unless instances of one name ask the same in all parts: the same texts, and images where these are known.

    Args:
        parts: instance_id, benchmark and, where it is known what they hold, the hashes of table ``similarities``.

    Raises:
        DataError: they are of different releases; the message says how many, and names some.
    """
    for column, what in ((TEXTS_HASH, "texts"), (IMAGES_HASH, "images")):
        hashed = [part[[*KEY, column]].dropna() for part in parts if column in part.columns]
        if not hashed:
            continue
        distinct = pd.concat(hashed, ignore_index=True).drop_duplicates()
        odd = distinct[distinct.duplicated(KEY)].drop_duplicates(KEY)
        if len(odd):
            count = len(distinct.drop_duplicates(KEY))
            names = [
                f"{name!r} of {benchmark}"
                for benchmark, name in zip(odd["benchmark"], odd["instance_id"], strict=True)
            ]
            raise DataError(
                f"{len(odd)} of {count} instances have the same id and other {what}:\n{format_items(names)}\n"
                f"They are of different releases, whose figures are not of the same questions. Score all models on one."
            )


def note_unknown_contents(parts: Sequence[pd.DataFrame]) -> list[str]:
    """Return a note, if several models share instances of which not every part says what their texts are; else none.

    Args:
        parts: model, benchmark, instance_id and, where it is known, the hash of the texts; as of ``check_contents``.
    """
    rows = [
        part[["model", *KEY]].assign(
            has_hash=part[TEXTS_HASH].notna() if TEXTS_HASH in part.columns else False
        )
        for part in parts
    ]
    if not rows:
        return []
    by_model = pd.concat(rows, ignore_index=True).groupby(["model", *KEY], sort=False)["has_hash"].all()
    by_instance = by_model.groupby(level=KEY, sort=False).agg(["size", "all"])
    count = int(((by_instance["size"] > 1) & ~by_instance["all"]).sum())
    if count == 0:
        return []
    return [
        f"{count} of {len(by_instance)} instances are taken for the same ones in several models by their ids alone: not all "
        f"files say what their texts are, so that different releases of a benchmark would not be noticed."
    ]
