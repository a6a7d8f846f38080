"""Compute the ceilings of an audited data set, by class of model, metric and subtype."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from caramel.benchmarks.ceilings.ceilings import compute_ceilings
from caramel.benchmarks.ceilings.recall_ceilings import compute_recall_ceilings
from caramel.interfaces.benchmark import Rankings
from caramel.utils.arrays import Bools

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
    return compute_ceilings(
        rows.assign(image=images, negative_image=negative_images),
        metrics,
        *_build_subsets(rows["subtype"].tolist()),
    )


def compute_query_ceilings(
    queries: Rankings, metrics: Sequence[str], subtypes: Sequence[str]
) -> pd.DataFrame:
    """Return the ceilings of queries with ``ceilings.CEILING_COLUMNS``; the subsets are as in ``compute_audit_ceilings``.

    Args:
        queries: queries with their candidates.
        metrics: names in ``metrics.RECALLS``.
        subtypes: of each query.
    """
    return compute_recall_ceilings(queries, metrics, *_build_subsets(subtypes))


def _build_subsets(subtypes: Sequence[str]) -> tuple[dict[str, Bools], dict[str, list[str]]]:
    """Return masks of all rows and of each subtype, and the members of the macro mean; one subtype is all rows."""
    names, of_row = list(dict.fromkeys(subtypes)), np.array(subtypes, dtype=object)
    everything = {ALL: np.ones(len(of_row), bool)}
    if len(names) < 2:
        return everything, {}
    return everything | {name: of_row == name for name in names}, {MACRO: names}
