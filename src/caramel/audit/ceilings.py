"""Compute the ceilings of an audited data set, by class of model, metric and subtype."""

from __future__ import annotations

import pandas as pd

from caramel.benchmarks.ceilings.ceilings import compute_ceilings

ONE_IMAGE, PARAPHRASE = ("accuracy",), ("itt", "tot")
TWO_IMAGES = ("i2t", "t2i", "group", "group_match")
ALL, MACRO = "all", "macro"


def compute_audit_ceilings(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the ceilings of audit rows with ``ceilings.CEILING_COLUMNS``.

    The subsets are ``all``, ``macro`` (the mean over the subtypes) and each subtype. The metrics are ``accuracy``,
    ``ITT`` and ``TOT`` if any row has a paraphrase, and those of two images if any row has both. An image is
    known by its name: two files with the same content are two images.
    """
    images = rows["image_id"]
    negative_images: pd.Series = pd.Series(None, rows.index, dtype=object)
    if "negative_image" in rows.columns:
        images = rows["image"].where(rows["image"].notna(), rows["image_id"])
        negative_images = rows["negative_image"]
    metrics = [*ONE_IMAGE]
    metrics += PARAPHRASE if rows["caption2"].notna().any() else ()
    metrics += TWO_IMAGES if negative_images.notna().any() else ()
    subtypes = list(dict.fromkeys(rows["subtype"]))
    subsets = {name: (rows["subtype"] == name).to_numpy() for name in subtypes}
    everything = {ALL: rows["subtype"].notna().to_numpy()}
    return compute_ceilings(
        rows.assign(image=images, negative_image=negative_images),
        metrics,
        everything | (subsets if len(subtypes) > 1 else {}),
        {MACRO: subtypes} if len(subtypes) > 1 else {},
    )
