"""The captions that a model ranks first are those of the highest scores; a tie is not in favour of the true one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caramel.errors import ConfigError
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.scores.top_candidates import COLUMNS, list_top_captions, rank_captions
from caramel.interfaces.benchmark import RANKING_COLUMNS, ImageFile, Rankings
from caramel.interfaces.settings import Compute


class Table:
    """Scores of texts with images that are a table."""

    def __init__(self, scores: list[list[float]]) -> None:
        self.scores = np.array(scores)

    def score_against_images(self, texts: np.ndarray, images: np.ndarray) -> np.ndarray:
        return self.scores[texts, images]

    def score_between_texts(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        raise AssertionError

    def score_all_pairs(self, texts: np.ndarray, images: np.ndarray) -> np.ndarray:
        raise AssertionError


def build_task(directions: tuple[str, str] = ("i2t", "i2t")) -> Rankings:
    rows = [
        (f"q{i}", f"image{i}", ["sc"], direction, i, i, [2 * i]) for i, direction in enumerate(directions)
    ]
    texts = [(name,) for name in ("dog", "cat", "car", "bus")]
    images = [ImageFile("0.jpg"), ImageFile("1.jpg")]
    pools = [np.array([0, 1]), np.array([2, 3, 1])]
    return Rankings(pd.DataFrame(rows, columns=list(RANKING_COLUMNS)), images, texts, pools)


def test_captions_are_ranked_by_their_scores_and_a_tie_is_lost() -> None:
    scores = Table([[0.5, 0], [0.5, 0.3], [0, 0.9], [0, 0.1]])
    ranked = rank_captions(build_task(), lambda texts, pairs: scores, top=2)
    assert list(ranked.columns) == list(COLUMNS)
    assert ranked[["instance_id", "caption", "rank", "candidate", "is_true"]].values.tolist() == [
        ["q0", "dog", 1, "cat", False],
        ["q0", "dog", 2, "dog", True],
        ["q1", "car", 1, "car", True],
        ["q1", "car", 2, "cat", False],
    ]


@pytest.mark.parametrize("model", ["text:folder", "blind:length"])
def test_a_model_that_sees_no_images_is_refused(tmp_path: Path, model: str) -> None:
    run = RunConfig(model, Compute("cpu", "fp32"), None, str(tmp_path), "inline")
    with pytest.raises(ConfigError, match="scores texts alone"):
        list_top_captions(build_task(), [b"0", b"1"], run, top=1)


def test_queries_by_caption_are_left_out_and_a_task_without_others_is_an_error(tmp_path: Path) -> None:
    scores = Table([[0.5, 0], [0.6, 0.3], [0, 0.9], [0, 0.1]])
    ranked = rank_captions(build_task(("t2i", "i2t")), lambda texts, pairs: scores, top=1)
    assert ranked["instance_id"].tolist() == ["q1"]
    run = RunConfig("m", Compute("cpu", "fp32"), None, str(tmp_path), "inline")
    with pytest.raises(ConfigError, match="does not rank captions for an image"):
        list_top_captions(build_task(("t2i", "t2i")), [], run, top=3)
