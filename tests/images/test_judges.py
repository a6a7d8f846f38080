import numpy as np
import pytest

from caramel.errors import DataError
from caramel.images.judges import ReadingJudge, clip_judge
from caramel.sources.world.drawing import draw, to_png
from caramel.sources.world.scenes import Scene, Thing

SCENE = Scene((Thing("car", "red", "small", 0, 0), Thing("house", "blue", "large", 0, 1)), "white")
PICTURE = to_png(draw(SCENE, np.random.default_rng(0)))
TRUE, FALSE = "A red car is to the left of a blue house.", "A blue car is to the left of a red house."


def test_the_exact_reading_tells_true_from_false_captions() -> None:
    assert ReadingJudge().fit([PICTURE, PICTURE], [TRUE, FALSE]).tolist() == [1.0, 0.0]


def test_a_picture_is_ambiguous_when_the_positive_is_true_of_it_too() -> None:
    judge = ReadingJudge()
    fits = judge.fit([PICTURE, PICTURE], ["There is a car.", FALSE])
    assert judge.ambiguous(np.ones(2), fits, 0.0).tolist() == [True, False]


def test_the_exact_reading_refuses_captions_of_another_language() -> None:
    with pytest.raises(DataError, match="only captions of the embedded world"):
        ReadingJudge().fit([PICTURE], ["A dog runs."])


def test_a_broken_picture_is_a_clear_error() -> None:
    with pytest.raises(DataError, match="does not decode"):
        ReadingJudge().fit([b"not an image"], [TRUE])


def test_a_model_judges_by_cosine_and_margin(clip_folder) -> None:
    judge = clip_judge(checkpoint=str(clip_folder), device="cpu")
    fits = judge.fit([PICTURE, PICTURE], [TRUE, FALSE])
    assert fits.shape == (2,)
    assert ((fits >= 0) & (fits <= 1)).all()
    assert judge.ambiguous(fits, fits, 0.0).all()
    assert not judge.ambiguous(fits + 0.1, fits, 0.05).any()
