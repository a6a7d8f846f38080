"""The two gates of the pipeline: which tables are made for which suite.

A suite looks at one table. What concerns two (a negative and its caption, a split and another)
is put into one small table first; the names below are the suites in ``expectations/``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from caramel.errors import DataError, GateError
from caramel.pictures import open_picture
from caramel.quality.scores import interval
from caramel.quality.suites import Summary, validate


def validate_captions(
    pairs: pd.DataFrame,
    negatives: pd.DataFrame,
    paraphrases: pd.DataFrame,
    *,
    min_pairs: int,
    folder: Path,
    docs_folder: Path,
) -> list[Summary]:
    """Return what the suites ``pairs``, ``negatives`` and ``paraphrases`` in ``folder`` found.

    Raises:
        GateError: one of them failed.
    """
    looked_at = {
        "pairs": pairs,
        "negatives": with_captions(negatives, pairs),
        "paraphrases": with_captions(paraphrases, pairs),
    }
    return _validate_all(looked_at, {"min_pairs": min_pairs}, folder, docs_folder)


def validate_benchmark(
    instances: pd.DataFrame,
    training: Mapping[str, pd.DataFrame],
    images: pd.DataFrame,
    scores: pd.DataFrame,
    *,
    blind_tolerance: float,
    blind_exempt: Sequence[str],
    max_subtype_share: float,
    folder: Path,
    docs_folder: Path,
) -> list[Summary]:
    """Return what the suites on the benchmark and its training sets in ``folder`` found.

    Args:
        instances: the benchmark.
        training: training sets by name.
        images: every image that they name.
        scores: of the blind scorers, for the instances' ids at least.
        blind_tolerance: see suite ``blind_accuracy``.
        blind_exempt: types that the gate on blind accuracy leaves out.
        max_subtype_share: see suite ``instances``.
        folder: of the suites.
        docs_folder: of the data docs.

    Raises:
        GateError: a suite failed.
    """
    sets = [rows.assign(training_set=name) for name, rows in training.items()]
    looked_at = {
        "instances": instances,
        "training": pd.concat(sets, ignore_index=True),
        "image_uses": image_uses(instances, training, images),
        "images": images_that_open(images),
        "blind_accuracy": blind_accuracy(instances, scores, exempt=blind_exempt),
    }
    parameters = {"blind_tolerance": blind_tolerance, "max_subtype_share": max_subtype_share}
    return _validate_all(looked_at, parameters, folder, docs_folder)


def _validate_all(
    looked_at: Mapping[str, pd.DataFrame], parameters: Mapping[str, Any], folder: Path, docs_folder: Path
) -> list[Summary]:
    """Run every suite, then stop if any failed: one run of the stage shows all that is wrong."""
    summaries, failures = [], []
    for name, rows in looked_at.items():
        try:
            suite = folder / f"{name}.json"
            summaries.append(validate(rows, suite, docs_folder=docs_folder, parameters=parameters))
        except GateError as error:
            failures.append(str(error))
    if failures:
        raise GateError("\n\n".join(failures))
    return summaries


def with_captions(rows: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with their pair's ``caption``, and ``missing_pair``: the pair that is not there."""
    captions = pairs.drop_duplicates("pair_id").set_index("pair_id")["caption"]
    known = rows["pair_id"].isin(captions.index)
    return rows.assign(caption=rows["pair_id"].map(captions), missing_pair=rows["pair_id"].mask(known))


def image_uses(
    instances: pd.DataFrame, training: Mapping[str, pd.DataFrame], images: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per distinct use of an image: image_id, split, used_in, missing_image."""
    uses = [images[["image_id", "split"]].assign(used_in="images")]
    for name, rows in {"instances": instances, **training}.items():
        for column in ("image_id", "negative_image_id"):
            use = rows[[column, "split"]].rename(columns={column: "image_id"})
            uses.append(use.dropna(subset="image_id").assign(used_in=f"{name}.{column}"))
    table = pd.concat(uses, ignore_index=True).drop_duplicates(ignore_index=True)
    known = table["image_id"].isin(images["image_id"])
    return table.assign(missing_image=table["image_id"].mask(known))


def images_that_open(images: pd.DataFrame) -> pd.DataFrame:
    """Return the images without their bytes, with ``image_ok``: it decodes to its row's size."""
    ok = [_opens(*row) for row in zip(images["image"], images["width"], images["height"], strict=True)]
    return images.drop(columns="image").assign(image_ok=pd.Series(ok, index=images.index, dtype="bool"))


def _opens(image: Mapping[str, Any], width: int, height: int) -> bool:
    try:
        return open_picture(image["bytes"] or b"", "").size == (width, height)
    except DataError:
        return False


def blind_accuracy(instances: pd.DataFrame, scores: pd.DataFrame, *, exempt: Sequence[str]) -> pd.DataFrame:
    """Return one row per blind scorer: how often it prefers the caption to its negative.

    Columns: scorer, instances (those to be scored), scored, ties, accuracy, ci_low, ci_high (95 %
    interval, clustered on the image). A tie counts as half a hit: a scorer that cannot tell is at
    chance. Accuracy is null, and the interval (0, 1), where nothing was scored.
    """
    judged = instances.loc[~instances["type"].isin(list(exempt)), ["instance_id", "image_id"]]
    rows = []
    for scorer, scored in scores.groupby("scorer", sort=True):
        own = scored.merge(judged, left_on="negative_id", right_on="instance_id", validate="m:1")
        gap = (own["positive_score"] - own["negative_score"]).to_numpy(dtype=np.float64)
        image = np.unique(own["image_id"].to_numpy(dtype=str), return_inverse=True)[1]
        hits, one_stratum = (gap > 0) + 0.5 * (gap == 0), np.zeros(len(own), dtype=np.int64)
        accuracy, low, high = interval(hits, one_stratum, image) if len(own) else (None, 0.0, 1.0)
        rows.append((scorer, len(judged), len(own), int((gap == 0).sum()), accuracy, low, high))
    columns = ["scorer", "instances", "scored", "ties", "accuracy", "ci_low", "ci_high"]
    return pd.DataFrame(rows, columns=columns)
