"""Check by hashes that instances with the same id have the same texts and images in all files."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from caramel.benchmarks.content import IMAGES_HASH, TEXTS_HASH
from caramel.errors import DataError, format_items

KEY = ["benchmark", "instance_id"]


def check_contents(parts: Sequence[pd.DataFrame]) -> None:
    """Raise unless instances with the same id have the same texts and images in all parts; unknown hashes are skipped.

    Args:
        parts: instance_id, benchmark and, if known, the hashes of table ``similarities``.

    Raises:
        DataError: the parts are of different releases; the message gives the number of instances and some names.
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
                f"{len(odd)} of {count} instances have the same id but different {what}:\n{format_items(names)}\n"
                f"They are of different releases, whose figures cannot be compared. "
                f"Score all models on the same release."
            )


def note_unknown_contents(parts: Sequence[pd.DataFrame]) -> list[str]:
    """Return a note if several models share instances whose texts' hash is unknown in some part; else nothing.

    Args:
        parts: model, benchmark, instance_id and, if known, the hash of the texts; as in ``check_contents``.
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
        f"{count} of {len(by_instance)} instances are matched between models by their ids alone, because not all files "
        f"hold the hash of their texts. Different releases of a benchmark would not be detected."
    ]
