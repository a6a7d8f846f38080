"""Score a model on a task and return table ``similarities``, which holds scores and no verdicts.

Every form of model is reduced to two functions: the score of rows of (text, image), and of rows of (text, text).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from caramel.benchmarks.content import hash_images, hash_texts
from caramel.evaluation.scores.blind_columns import compute_blind_columns
from caramel.evaluation.scores.encoding import RunConfig, encode_items, encode_joint_items
from caramel.evaluation.scores.item_scores import Encode
from caramel.evaluation.scores.joint_columns import compute_joint_columns
from caramel.evaluation.scores.ranking import compute_rank_columns
from caramel.interfaces.benchmark import ABSENT, Comparisons, Index, Task
from caramel.interfaces.model import BlindModel, JointEncoder
from caramel.models.specs import get_family, get_score_type, open_model
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.utils.arrays import Floats


def compute_similarities(
    task: Task, image_keys: Sequence[bytes], run: RunConfig, *, benchmark: str
) -> pd.DataFrame:
    """Return table ``similarities`` of one model on one task, in the order of the task's rows.

    Args:
        task: the task to score.
        image_keys: content key of each of the task's images, from ``check_images``.
        run: settings of the model's forward passes.
        benchmark: value of column ``benchmark``.

    Raises:
        BackendError: the model cannot be loaded, gives NaN in an embedding, or has no scores for such a task.
        DataError: an image cannot be read, or the store is broken.
    """
    model = open_model(run.model, run.compute.device, run.compute.precision)
    if isinstance(model, BlindModel):
        columns = compute_blind_columns(task, model)
    elif isinstance(model, JointEncoder):
        columns = compute_joint_columns(
            task,
            lambda texts, pairs: encode_joint_items(task.images, image_keys, texts, pairs, run, model),
        )
    else:
        columns = compute_score_columns(
            task, lambda texts, pairs: encode_items(task.images, image_keys, texts, pairs, run, model)
        )
    keys = image_keys if get_family(run.model).looks_at_images else None
    return build_similarities(
        task, columns, keys, model=model.name, benchmark=benchmark, score_type=get_score_type(run.model)
    )


def compute_score_columns(task: Task, encode: Encode) -> dict[str, Floats]:
    """Return the score columns of a task, with the model that ``encode`` runs."""
    return (
        _score_comparisons(task, encode)
        if isinstance(task, Comparisons)
        else compute_rank_columns(task, encode)
    )


def build_similarities(
    task: Task,
    columns: Mapping[str, Floats],
    image_keys: Sequence[bytes] | None,
    *,
    model: str,
    benchmark: str,
    score_type: str,
) -> pd.DataFrame:
    """Return table ``similarities`` of a task's rows with these score columns and their score type.

    Instances that the task leaves out come last, without a score.

    Args:
        task: the scored task.
        columns: scores of its rows.
        image_keys: content key of each of its images; None: the model used no images.
        model: name of the model.
        benchmark: name of the benchmark.
        score_type: how the scores were computed.
    """
    rows = task.rows[["instance_id", "image_id", "subsets"]].assign(
        texts_hash=hash_texts(task), images_hash=None if image_keys is None else hash_images(task, image_keys)
    )
    rows = rows.assign(score_type=score_type, **columns)
    if task.left_out is not None:
        unscored = task.left_out.rows[["instance_id", "image_id", "subsets"]]
        unscored = unscored.assign(
            texts_hash=task.left_out.texts_hash, images_hash=None, score_type=score_type
        )
        rows = pd.concat([rows, unscored], ignore_index=True)
    return build_frame(SIMILARITIES, rows.assign(model=model, benchmark=benchmark))


def number_texts(columns: Sequence[pd.Series]) -> tuple[list[str], list[Index]]:
    """Return the distinct texts of some columns, and each row's index among them; ``ABSENT`` for None."""
    positions: dict[str, int] = {}
    index = [
        np.array(
            [ABSENT if text is None else positions.setdefault(text, len(positions)) for text in column],
            np.int64,
        )
        for column in columns
    ]
    return list(positions), index


def _score_comparisons(task: Comparisons, encode: Encode) -> dict[str, Floats]:
    """Return the score columns of comparisons."""
    rows = task.rows
    texts, (c0, c1, c2) = number_texts([rows[n] for n in ("caption", "negative_caption", "caption2")])
    i0, i1 = (rows[n].to_numpy(np.int64) for n in ("image", "negative_image"))
    wanted = {
        "s_c0_i0": (c0, i0),
        "s_c1_i0": (c1, i0),
        "s_c2_i0": (c2, i0),
        "s_c0_i1": (c0, i1),
        "s_c1_i1": (c1, i1),
    }

    def list_pairs() -> tuple[Index, Index]:
        here = [(t[keep], i[keep]) for t, i in wanted.values() for keep in [(t != ABSENT) & (i != ABSENT)]]
        return np.concatenate([t for t, _ in here]), np.concatenate([i for _, i in here])

    scores = encode(texts, list_pairs)
    columns = {name: _score_present(scores.score_against_images, *items) for name, items in wanted.items()}
    between = {"t_p1_p2": (c0, c2), "t_p1_n": (c0, c1), "t_p2_n": (c2, c1)}
    return columns | {
        name: _score_present(scores.score_between_texts, *items) for name, items in between.items()
    }


def _score_present(score: Callable[[Index, Index], Floats], a: Index, b: Index) -> Floats:
    """Return the score of each row; NaN where an item is absent."""
    result = np.full(len(a), np.nan)
    present = (a != ABSENT) & (b != ABSENT)
    result[present] = score(a[present], b[present])
    return result
