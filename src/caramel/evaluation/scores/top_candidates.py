"""List the candidates that a model ranks first for a query: table 17 of Ma et al. 2023."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from caramel.errors import ConfigError
from caramel.evaluation.scores.encoding import RunConfig, encode_items
from caramel.evaluation.scores.item_scores import Encode
from caramel.interfaces.benchmark import Rankings, Task
from caramel.interfaces.model import BlindModel
from caramel.models.specs import get_family, open_model

COLUMNS = ("instance_id", "subsets", "image_id", "caption", "rank", "candidate", "score", "is_true")


def list_top_captions(task: Task, image_keys: Sequence[bytes], run: RunConfig, *, top: int) -> pd.DataFrame:
    """Return the ``top`` captions of each query by image, best first; see ``rank_captions``.

    Args:
        task: task of a benchmark of rankings.
        image_keys: content key of each of its images.
        run: settings of the model's forward passes.
        top: number of captions of each query.

    Raises:
        ConfigError: the task has no query that ranks captions for an image, or the model sees no images.
        BackendError, DataError: as ``scoring.compute_similarities``.
    """
    if not isinstance(task, Rankings) or not (task.rows["direction"] == "i2t").any():
        raise ConfigError("The benchmark does not rank captions for an image. Name one of CREPE's.")
    if not get_family(run.model).looks_at_images:
        raise ConfigError(
            f"{run.model!r} scores texts alone, so all images would have the same captions first."
        )
    model = open_model(run.model, run.compute.device, run.compute.precision)
    assert not isinstance(model, BlindModel), "its family sees images"
    return rank_captions(
        task, lambda texts, pairs: encode_items(task.images, image_keys, texts, pairs, run, model), top=top
    )


def rank_captions(task: Rankings, encode: Encode, *, top: int) -> pd.DataFrame:
    """Return (``COLUMNS``) of the ``top`` captions of each query by image; with equal scores, the true one is last.

    A text of several prompts is scored by its first.
    """
    rows = task.rows[task.rows["direction"] == "i2t"]
    pools = [task.pools[pool] for pool in rows["pool"]]
    texts = np.concatenate(pools).astype(np.int64)
    images = np.repeat(rows["query"].to_numpy(np.int64), [len(pool) for pool in pools])
    prompts = [text[0] for text in task.texts]
    scores = encode(prompts, lambda: (texts, images)).score_against_images(texts, images)
    ranked: list[tuple[object, ...]] = []
    parts = np.split(scores, np.cumsum([len(pool) for pool in pools])[:-1])
    for row, pool, values in zip(rows.to_dict("records"), pools, parts, strict=True):
        is_true = np.isin(pool, row["true"])
        head = (row["instance_id"], " ".join(row["subsets"]), row["image_id"], prompts[row["true"][0]])
        ranked += [
            (*head, rank, prompts[pool[k]], float(values[k]), bool(is_true[k]))
            for rank, k in enumerate(np.lexsort((is_true, -values))[:top].tolist(), 1)
        ]
    return pd.DataFrame(ranked, columns=list(COLUMNS))
