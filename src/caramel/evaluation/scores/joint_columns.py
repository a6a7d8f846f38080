"""Score a task with a joint encoder, whose vectors of an image with a caption are compared with each other.

The model has no score of one caption. SugarCrepe++ (Dumpala et al. 2024; VLMs/test_ViLT.py of
github.com/Sri-Harsha/scpp) takes the cosines of the vectors of an image with P1, P2 and N. ITT is a hit if
cos(P1, P2) > cos(P1, N) and cos(P1, P2) > cos(P2, N); each inequality alone is that of one true caption. The columns
hold these cosines with a minus, so that the inequalities of ``benchmarks.metrics`` are the same ones:

    s_c0_i0 = −cos(P1, N)    s_c2_i0 = −cos(P2, N)    s_c1_i0 = −cos(P1, P2)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from caramel.errors import BackendError
from caramel.evaluation.scores.item_scores import Pairs, compute_dot_products
from caramel.interfaces.benchmark import ABSENT, Comparisons, Index, Task
from caramel.interfaces.model import Embeddings
from caramel.utils.arrays import Floats

CAPTIONS = ("caption", "negative_caption", "caption2")
# A task's distinct texts, and a function that returns its (text, image) rows -> distinct vectors, each row's index.
EncodeJoint = Callable[[Sequence[str], Pairs], tuple[Embeddings, Index]]


def has_paraphrases(task: Task) -> bool:
    """Return whether every instance has an image, two true captions and a negative."""
    if not isinstance(task, Comparisons):
        return False
    return bool(task.rows[[*CAPTIONS]].notna().all(axis=None) and (task.rows["image"] != ABSENT).all())


def compute_joint_columns(task: Task, encode: EncodeJoint) -> dict[str, Floats]:
    """Return the score columns of each row of the task, (n,) each, in [-1, 1].

    Raises:
        BackendError: an instance lacks an image, a second true caption or a negative.
    """
    if not isinstance(task, Comparisons) or not has_paraphrases(task):
        raise BackendError(
            "Joint states compare two true captions and a negative of an image, and some instances do not have these."
        )
    rows = task.rows
    captions = rows[[*CAPTIONS]].to_numpy().T.reshape(-1).tolist()
    positions = {text: number for number, text in enumerate(dict.fromkeys(captions))}
    text_of = np.array([positions[text] for text in captions], np.int64)
    image_of = np.tile(rows["image"].to_numpy(np.int64), len(CAPTIONS))
    vectors, row_of = encode(list(positions), lambda: (text_of, image_of))
    first, negative, second = row_of.reshape(len(CAPTIONS), -1)
    return {
        "s_c0_i0": -compute_dot_products(vectors, first, vectors, negative),
        "s_c1_i0": -compute_dot_products(vectors, first, vectors, second),
        "s_c2_i0": -compute_dot_products(vectors, second, vectors, negative),
    }
