from typing import Any

import numpy as np
import pandas as pd
import pytest
from stored_images import indexed

from caramel.errors import DataError
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.contracts import check_table
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.images.calibration import LEAST, SPLIT, Calibration
from caramel.sources.images.filters import (
    AMBIGUOUS,
    NO_FAITHFUL,
    FilterResult,
    FilterSettings,
    calibrate_and_filter,
    filter_images,
)
from caramel.sources.images.judges import NoJudge, ReadingJudge
from caramel.sources.world.drawing import draw_scene, encode_png
from caramel.sources.world.scenes import Scene, SceneObject

RED_CAR, BLUE_CAR = SceneObject("car", "red", "small", 0, 0), SceneObject("car", "blue", "small", 0, 0)
TREE = SceneObject("tree", "green", "large", 1, 1)


def picture(*things: SceneObject) -> bytes:
    return encode_png(draw_scene(Scene(things, "white"), np.random.default_rng(0)))


def filtered(drawn: dict[str, list[bytes]], **changes: Any) -> FilterResult:
    """Filter candidates of negatives "a blue car" of the pair "a red car", or of other captions."""
    positive = changes.pop("positive", "There is a red car.")
    negative = changes.pop("negative", "There is a blue car.")
    subtype = changes.pop("subtype", "replace_att")
    pairs = pd.DataFrame([(n, n, positive, None, "test", "t") for n in drawn], columns=list(PAIRS.columns))
    pairs = pd.concat([pairs, *([changes.pop("more_pairs")] if "more_pairs" in changes else [])])
    negatives = pd.DataFrame(
        [(n, n, subtype.split("_")[0], subtype, negative, "g", 0, 1, None) for n in drawn],
        columns=list(NEGATIVES.columns),
    )
    with_positives = changes.pop("positives", {})
    rows = [
        (n, i, f"{n}#{i}", 0, "g", "p", f"{n}#{i}+" if n in with_positives else None, None)
        for n, files in drawn.items()
        for i in range(len(files))
    ]
    candidates = pd.DataFrame(rows, columns=list(CANDIDATES.columns))
    files = {
        f"{n}#{i}{mark}": data
        for mark, several in (("", drawn), ("+", with_positives))
        for n, pictures in several.items()
        for i, data in enumerate(pictures)
    }
    images = indexed(files)
    chosen = {
        "faithfulness_threshold": 0.5,
        "margin": 0.0,
        "keep_ambiguous": ["add"],
        "ambiguity_test": "captions",
    }
    settings = FilterSettings(**{name: changes.pop(name, default) for name, default in chosen.items()})
    judge = changes.pop("judge", ReadingJudge(allow_unmentioned_objects=False))
    filter_candidates = calibrate_and_filter if "calibration_negatives" in changes else filter_images
    return filter_candidates(
        candidates,
        images,
        files,
        negatives,
        pairs,
        judge=judge,
        second_judge=changes.pop("second_judge", judge),
        settings=settings,
        **changes,
    )


def test_the_first_faithful_candidate_is_chosen() -> None:
    found = filtered({"n": [picture(TREE), picture(BLUE_CAR), picture(BLUE_CAR, TREE)]})
    assert found.images["image_id"].tolist() == ["n#1"]
    assert found.choices["chosen_by"].fillna("no").tolist() == ["no", "world", "no"]
    assert found.rejects.empty


def test_none_is_chosen_where_none_is_faithful() -> None:
    found = filtered({"n": [picture(TREE), picture(RED_CAR)]})
    assert found.images.empty
    assert found.rejects["reason"].tolist() == [NO_FAITHFUL]


def test_an_image_that_fits_both_captions_is_dropped() -> None:
    found = filtered({"n": [picture(BLUE_CAR)]}, positive="There is a car.")
    assert found.rejects["reason"].tolist() == [AMBIGUOUS]


def test_a_clear_candidate_is_preferred_to_an_ambiguous_one() -> None:
    said = {"positive": "A car is to the left of a tree.", "negative": "A car is above a tree."}
    both, clear = picture(BLUE_CAR, TREE), picture(BLUE_CAR, SceneObject("tree", "green", "large", 1, 0))
    assert filtered({"n": [both, clear]}, **said).images["image_id"].tolist() == ["n#1"]


def test_types_that_are_ambiguous_by_construction_can_be_kept() -> None:
    found = filtered({"n": [picture(BLUE_CAR)]}, subtype="add_att", positive="There is a car.")
    assert len(found.images) == 1


def test_where_the_positive_is_drawn_too_both_pictures_must_be_faithful() -> None:
    drawn = {"n": [picture(BLUE_CAR)] * 2}
    found = filtered(drawn, positives={"n": [picture(TREE), picture(RED_CAR)]})
    assert found.choices["chosen_by"].fillna("no").tolist() == ["no", "world"]
    assert found.images["image_id"].tolist() == ["n#1", "n#1+"]
    assert found.metrics["candidates"]["faithful"] == 0.0  # of first ones
    none = filtered(drawn, positives={"n": [picture(TREE)] * 2})
    assert none.rejects["reason"].tolist() == [NO_FAITHFUL]


def test_every_negative_is_kept_or_rejected_and_tables_keep_their_contracts() -> None:
    found = filtered({"a": [picture(BLUE_CAR)], "b": [picture(TREE)]})
    assert len(found.images) + len(found.rejects) == 2
    for table, rows in (
        (CHOICES, found.choices),
        (REJECTS, found.rejects),
        (IMAGES, found.images),
    ):
        check_table(table, rows, "test")


def test_the_figures_say_from_which_fit_on_a_candidate_is_kept_and_counts_as_faithful() -> None:
    drawn = {"a": [picture(BLUE_CAR)], "b": [picture(TREE)]}
    asked = filtered(drawn, faithfulness_threshold=0.0).metrics["threshold"]
    assert asked == {"faithfulness_threshold": 0.0, "faithful_from": 0.5, "calibration": None}
    found = Calibration(0.7, 60, 0.9, 0.8, 0.85)
    asked = filtered(drawn, faithfulness_threshold=found.threshold, calibration=found).metrics["threshold"]
    assert (asked["faithfulness_threshold"], asked["faithful_from"]) == (0.7, 0.7)
    assert asked["calibration"]["precision"] == 0.9
    assert asked["calibration"]["images"] == 60


def test_a_judge_measured_against_itself_has_no_errors() -> None:
    drawn = {"a": [picture(BLUE_CAR), picture(TREE)], "b": [picture(RED_CAR), picture(BLUE_CAR)]}
    second = filtered(drawn).metrics["second_judge"]
    assert (second["precision"], second["recall"], second["agreement"]) == (1.0, 1.0, 1.0)


def test_the_second_judge_is_measured_from_its_calibrated_threshold_on() -> None:
    drawn = {"a": [picture(BLUE_CAR)], "b": [picture(TREE)]}
    found = Calibration(0.0, 60, 0.9, 0.8, 0.85)
    second = filtered(drawn, second_calibration=found).metrics["second_judge"]
    assert (second["accepted_from"], second["calibration"]["balanced_accuracy"]) == (0.0, 0.85)
    assert (second["passed"], second["passed_of_unfaithful"]) == (1.0, 1.0)
    second = filtered(drawn, second_calibration=found._replace(threshold=0.5)).metrics["second_judge"]
    assert (second["passed"], second["passed_of_unfaithful"]) == (0.5, 0.0)


def test_yield_is_counted_per_first_candidate_and_per_negative() -> None:
    drawn = {
        "a": [picture(BLUE_CAR), picture(TREE)],
        "b": [picture(TREE), picture(BLUE_CAR)],
        "c": [picture(TREE)],
    }
    metrics = filtered(drawn).metrics
    assert (metrics["candidates"]["drawn"], metrics["candidates"]["n"]) == (5, 3)
    assert metrics["candidates"]["faithful"] == pytest.approx(1 / 3, abs=1e-4)
    assert metrics["candidates"]["by_subtype"] == {"replace_att": {"n": 3, "faithful": 0.3333}}
    assert metrics["second_judge"]["n"] == 3
    assert metrics["negatives"]["with_faithful"] == pytest.approx(2 / 3, abs=1e-4)


def test_shares_of_candidates_are_those_of_all_where_further_ones_are_drawn_only_after_failures() -> None:
    of_all = {"a": [picture(BLUE_CAR)] * 2, "b": [picture(TREE), picture(BLUE_CAR)]}
    in_rounds = {**of_all, "a": [picture(BLUE_CAR)]}
    one, other = (filtered(drawn).metrics for drawn in (of_all, in_rounds))
    assert one["candidates"].pop("drawn") - other["candidates"].pop("drawn") == 1
    assert one == other


def test_a_threshold_that_is_not_given_is_calibrated_on_the_source() -> None:
    names = [f"v{number}" for number in range(LEAST)]
    pairs = pd.DataFrame(
        [(n, n, "There is a red car.", None, SPLIT, "t") for n in names], columns=list(PAIRS.columns)
    )
    source = {
        "source_files": dict.fromkeys(names, picture(RED_CAR)),
        "calibration_negatives": build_frame(
            NEGATIVES,
            [{"negative_id": n, "pair_id": n, "negative_caption": "There is a blue car."} for n in names],
        ),
        "more_pairs": pairs,
        "seed": 1,
    }
    found = filtered({"n": [picture(TREE), picture(BLUE_CAR)]}, **source, faithfulness_threshold=None)
    assert found.metrics["threshold"]["faithfulness_threshold"] == 0.5
    assert found.metrics["threshold"]["calibration"]["images"] == LEAST
    given = filtered({"n": [picture(TREE), picture(BLUE_CAR)]}, **source, faithfulness_threshold=0.25)
    assert given.metrics["threshold"]["faithfulness_threshold"] == 0.25
    assert given.metrics["threshold"]["calibration"] is None
    assert found.choices["chosen_by"].notna().tolist() == [False, True]


class _Stated:
    """A judge whose fit to any caption is written in the image."""

    name = "stated"

    def score_match(self, images: Any, captions: Any) -> Any:
        assert len(images) == len(captions)
        return np.array([float(image.decode()) for image in images])

    def is_ambiguous(self, negative: Any, positive: Any, margin: float) -> Any:
        return negative - positive <= margin


def test_as_published_an_image_is_ambiguous_if_it_fits_the_original_caption_as_well_as_the_original_image() -> (
    None
):
    drawn = {"clear": [b"0.6"], "equal": [b"0.9"], "near": [b"0.8"]}
    positives = {name: [b"0.9"] for name in drawn}
    kwargs = {"positives": positives, "judge": _Stated(), "second_judge": None, "subtype": "add_obj"}
    result = filtered(drawn, ambiguity_test="images", margin=0.15, keep_ambiguous=(), **kwargs)
    kept = result.choices.set_index("negative_id")["chosen_by"]
    assert kept.dropna().index.tolist() == ["clear"]
    assert set(result.rejects["reason"]) == {AMBIGUOUS}


def test_the_original_image_of_the_source_is_compared_and_must_be_there() -> None:
    kwargs = {"judge": _Stated(), "second_judge": None, "ambiguity_test": "images", "keep_ambiguous": ()}
    result = filtered({"a": [b"0.6"]}, source_files={"a": b"0.9"}, **kwargs)
    assert result.choices["chosen_by"].tolist() == ["stated"]
    with pytest.raises(DataError, match=r"positive image 'a' is missing.*ambiguity_test"):
        filtered({"a": [b"0.6"]}, **kwargs)


def test_without_a_judge_the_shares_of_faithful_images_are_unknown() -> None:
    found = filtered({"n": [picture(TREE)]}, judge=NoJudge(), second_judge=None)
    candidates, negatives = found.metrics["candidates"], found.metrics["negatives"]
    assert candidates["faithful"] is None
    assert candidates["ambiguous_of_faithful"] is None
    assert candidates["by_subtype"] == {"replace_att": {"n": 1, "faithful": None}}
    assert negatives == {
        **dict.fromkeys(("with_faithful", "with_faithful_and_clear", "ambiguous")),
        **{"n": 1, "kept": 1},
    }


def test_without_a_judge_of_fit_a_judge_of_ambiguity_still_has_its_share() -> None:
    reading = ReadingJudge(allow_unmentioned_objects=False)
    found = filtered({"n": [picture(BLUE_CAR)]}, judge=NoJudge(), second_judge=None, ambiguity_judge=reading)
    assert found.metrics["candidates"]["ambiguous_of_faithful"] == 0.0
    assert found.metrics["candidates"]["faithful"] is None
