from pathlib import Path

import numpy as np
import pytest

from caramel.errors import DataError
from caramel.runtime.ray.file_transfer import LocalFile, format_as_given, map_instances
from caramel.sources.images.judge_specs import split_judge_spec
from caramel.sources.images.judges import ReadingJudge, clip_judge
from caramel.sources.world.drawing import draw_scene, encode_png
from caramel.sources.world.scenes import Scene, SceneObject

SCENE = Scene(
    (SceneObject("car", "red", "small", 0, 0), SceneObject("house", "blue", "large", 0, 1)), "white"
)
PICTURE = encode_png(draw_scene(SCENE, np.random.default_rng(0)))
TRUE, FALSE = "A red car is to the left of a blue house.", "A blue car is to the left of a red house."


def test_the_exact_reading_tells_true_from_false_captions() -> None:
    assert ReadingJudge(allow_unmentioned_objects=False).score_match(
        [PICTURE, PICTURE], [TRUE, FALSE]
    ).tolist() == [
        1.0,
        0.0,
    ]


def test_a_picture_is_ambiguous_when_the_positive_is_true_of_it_too() -> None:
    judge = ReadingJudge(allow_unmentioned_objects=True)
    fits = judge.score_match([PICTURE, PICTURE], ["There is a car.", FALSE])
    assert judge.is_ambiguous(np.ones(2), fits, 0.0).tolist() == [True, False]


def test_the_exact_reading_refuses_captions_of_another_language() -> None:
    with pytest.raises(DataError, match="only captions of the embedded world"):
        ReadingJudge(allow_unmentioned_objects=False).score_match([PICTURE], ["A dog runs."])


def test_a_broken_picture_is_a_clear_error() -> None:
    with pytest.raises(DataError, match="does not decode"):
        ReadingJudge(allow_unmentioned_objects=False).score_match([b"not an image"], [TRUE])


def test_a_broken_picture_is_named_by_its_place_among_all_and_not_among_different_ones() -> None:
    with pytest.raises(DataError, match="Image 'number 2' does not decode"):
        ReadingJudge(allow_unmentioned_objects=False).score_match(
            [PICTURE, PICTURE, b"not an image"], [TRUE] * 3
        )


def test_a_model_judges_by_cosine_and_margin(clip_folder) -> None:
    judge = clip_judge(checkpoint=str(clip_folder), device="cpu", allow_unmentioned_objects=False)
    fits = judge.score_match([PICTURE, PICTURE], [TRUE, FALSE])
    assert fits.shape == (2,)
    assert ((fits >= 0) & (fits <= 1)).all()
    assert judge.is_ambiguous(fits, fits, 0.0).all()
    assert not judge.is_ambiguous(fits + 0.1, fits, 0.05).any()


def fit(caption: str, *things: SceneObject, allow_unmentioned_objects: bool = False) -> float:
    picture = encode_png(draw_scene(Scene(things, "white"), np.random.default_rng(0)))
    return float(
        ReadingJudge(allow_unmentioned_objects=allow_unmentioned_objects).score_match([picture], [caption])[0]
    )


CAR, CUP = SceneObject("car", "red", "small", 0, 0), SceneObject("cup", "blue", "large", 0, 1)


def test_an_object_that_is_not_said_makes_a_picture_unfaithful_unless_further_ones_are_allowed() -> None:
    assert fit("A red car.", CAR) == 1.0
    assert fit("A red car.", CAR, CUP) == 0.0
    assert fit("A red car.", CAR, CUP, allow_unmentioned_objects=True) == 1.0
    assert fit("A red car along with nothing else.", CAR, CUP, allow_unmentioned_objects=True) == 0.0


def test_a_noun_that_stands_twice_or_a_cell_that_cannot_be_read_is_no_picture_of_the_world() -> None:
    twice = (CAR, SceneObject("car", "blue", "small", 1, 1))
    assert fit("A red car.", *twice, allow_unmentioned_objects=True) == 0.0
    picture = draw_scene(Scene((CAR,), "white"), np.random.default_rng(0))
    picture[30:42, 28:46] = np.random.default_rng(1).integers(256, size=(12, 18, 3))
    judge = ReadingJudge(allow_unmentioned_objects=True)
    assert judge.score_match([encode_png(picture)], ["A red car."]).tolist() == [0.0]


def test_a_position_is_read_off_the_picture() -> None:
    assert fit("A red car on the left and a cup at the top.", CAR, CUP) == 1.0
    assert fit("A red car on the left and a cup at the bottom.", CAR, CUP) == 0.0


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ("itm:blip", ["blip"]),
        ("questions:blip@parser", ["blip", "parser"]),
        ("questions:blip@en_core_web_sm", ["blip"]),
        ("vqascore:owner/model", []),
        ("clip", []),
    ],
)
def test_the_folders_of_a_judge_s_spec_travel_to_other_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, paths: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("blip", "parser"):
        Path(name).mkdir()
    parts = split_judge_spec(spec)
    assert [part.path for part in parts if isinstance(part, LocalFile)] == paths
    assert "".join(map_instances(parts, LocalFile, format_as_given)) == spec
