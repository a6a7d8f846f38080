from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stored_images import stored

from caramel.evaluation.bounds import compute_bounds, compute_expected_group, read_group
from caramel.evaluation.results.run_hits import compute_run_hits
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, write_table
from caramel.sources.world.drawing import draw_scene, encode_png
from caramel.sources.world.scenes import Scene, SceneObject

CAR, BOX = SceneObject("car", "red", "small", 0, 0), SceneObject("box", "blue", "large", 0, 1)


def moved(thing: SceneObject, **changes: object) -> SceneObject:
    return SceneObject(**{**thing.__dict__, **changes})


SCENES = {
    "plain": (CAR, BOX),
    "recoloured": (moved(CAR, colour="pink"), BOX),
    "colours swapped": (moved(CAR, colour="blue"), moved(BOX, colour="red")),
    "turned": (moved(CAR, column=1), moved(BOX, column=0)),
    "stacked": (CAR, moved(BOX, row=1, column=0)),
    "three": (CAR, BOX, SceneObject("cup", "green", "large", 1, 0)),
}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [
        {
            "image_id": name,
            "data": encode_png(draw_scene(Scene(things, "white"), rng)),
            "width": 48,
            "height": 48,
        }
        | {"source": "world", "split": "test"}
        for name, things in SCENES.items()
    ]
    stored(tmp_path / "images.parquet", rows)
    return tmp_path / "images.parquet"


@pytest.mark.parametrize(
    ("negative", "captions", "words"),
    [
        ("recoloured", ("A red car and a blue box.", "A pink car and a blue box."), 1),
        ("colours swapped", ("A red car and a blue box.", "A blue car and a red box."), 1 / 6),
        ("turned", ("A car is to the left of a box.", "A car is to the right of a box."), 1 / 6),
        ("turned", ("A car is to the left of a box.", "A box is to the left of a car."), 1 / 6),
        ("stacked", ("A car is to the left of a box.", "A car is above a box."), 1),
        ("turned", ("A car on the left and a box on the right.", "A car on the right and a box on the left."), 1 / 6),
        ("three", ("A car and a box.", "A car and a box along with a cup."), 1),
    ],
)  # fmt: skip
def test_a_reader_of_words_is_at_chance_where_order_alone_differs_and_an_exact_one_is_right(
    images: Path, negative: str, captions: tuple[str, str], words: float
) -> None:
    row = dict(zip(("caption", "negative_caption"), captions, strict=True))
    instances = pd.DataFrame([{**row, "image_id": "plain", "negative_image_id": negative}])
    found = read_group(instances, images, allow_unmentioned_objects=False)
    assert found[0][0] == pytest.approx(words)
    assert found[1][0] == 1


def test_where_pictures_may_show_more_an_added_object_leaves_the_caption_true(images: Path) -> None:
    row = {"caption": "A car and a box.", "negative_caption": "A car and a box along with a cup."}
    instances = pd.DataFrame([{**row, "image_id": "plain", "negative_image_id": "three"}])
    _, exact = read_group(instances, images, allow_unmentioned_objects=True)
    assert exact[0] < 1


def test_free_captions_have_no_reader(tmp_path: Path) -> None:
    row = {"caption": "Two people ride.", "negative_caption": "Two people walk."}
    instances = pd.DataFrame([{**row, "image_id": "a", "negative_image_id": "b"}])
    assert np.isnan(read_group(instances, tmp_path / "images.parquet", allow_unmentioned_objects=False)).all()


def test_ties_that_are_broken_at_random_give_one_in_six() -> None:
    scores = np.array([np.ones((2, 2)), np.eye(2), 1 - np.eye(2), [[1, 1], [0, 0]], [[1, 1], [0, 1]]])
    assert compute_expected_group(scores) == pytest.approx([1 / 6, 1, 0, 0, 1 / 3])


def test_instances_on_which_models_differ_are_counted_against_the_base_and_among_trainings(
    tmp_path: Path,
) -> None:
    right = {"base": "10010", "a-1": "11000", "a-2": "11010", "b-1": "11010"}  # instance by instance
    rows = [
        {
            "instance_id": str(i),
            "image_id": str(i),
            "subsets": ["swap_att"],
            "model": model,
            "benchmark": "instances",
        }
        | {"s_c0_i0": float(hit), "s_c1_i1": float(hit), "s_c1_i0": 0.5, "s_c0_i1": 0.5}
        for model, hits in right.items()
        for i, hit in enumerate(hits)
    ]
    similarities = build_frame(SIMILARITIES, rows)
    instance = {
        "image_id": "a",
        "negative_image_id": "b",
        "caption": "Two people.",
        "negative_caption": "None.",
    }
    instance |= {"type": "swap", "subtype": "swap_att", "split": "test"}
    instances = [{**instance, "instance_id": str(i)} for i in range(5)]
    write_table(INSTANCES, build_frame(INSTANCES, instances), tmp_path / "instances.parquet")
    found = compute_bounds(
        compute_run_hits(similarities, "instances", ["group"]), tmp_path, allow_unmentioned_objects=False
    ).set_index("subset")
    assert found.loc["swap_att", ["n", "base", "base_differs", "runs_differ"]].tolist() == [5, 0.4, 2, 1]
