"""The stage's figures: of both forms on the same folds, of one split, and where nothing can be said."""

import json

import numpy as np
import pandas as pd
import pytest

from caramel.blind.image import network
from caramel.blind.image.attack import ATTACKERS, FEWEST
from caramel.blind.image.planted import run_planted_control
from caramel.blind.image.scores import compute_image_scores
from caramel.errors import DataError
from caramel.schemas.contracts import check_table
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame
from caramel.schemas.scores import SCORES
from caramel.sources.world.drawing import draw_scene, encode_png
from caramel.sources.world.scenes import sample_scene
from caramel.utils.resampling import CrossValidation

PAIRS = 40


pytestmark = pytest.mark.usefixtures("brief_network")


def world(seed=0):
    """Return forms, images and texts: of *swap* and a few of *only*; in the source form positives are brighter."""
    rng = np.random.default_rng(seed)
    images, instances, texts = {}, [], []
    for n in range(PAIRS + 5):
        kind = "swap_obj" if n < PAIRS else "only_obj"
        split = "val" if n % 4 == 0 else "test"
        name = f"p{n:03}:{kind}"
        for role, light in (("drawn", 0), ("negative", 0), ("source", 25)):
            pixels = draw_scene(sample_scene(rng, num_objects=2, typical_color_prob=0.5), rng) // 2 + light
            images[f"{name}:{role}"] = encode_png(pixels)
        row = {"instance_id": name, "image_id": f"{name}:drawn", "negative_image_id": f"{name}:negative"}
        row |= {
            "caption": f"A cup {n}.",
            "negative_caption": f"A key {n}.",
            "type": kind[:4],
            "subtype": kind,
        }
        instances.append(row | {"split": split, "caption2": None, "compounds": None})
        scores = {"positive_score": 0.9, "negative_score": 0.1}
        texts += [{"negative_id": name, "scorer": scorer, **scores} for scorer in ("one", "two")]
    drawn = build_frame(INSTANCES, instances)
    source = drawn.assign(image_id=drawn["instance_id"] + ":source")
    forms = {"instances": drawn, "instances_source": source}
    return forms, images, build_frame(SCORES, texts)


@pytest.fixture(scope="module")
def made():
    return world()


@pytest.fixture(scope="module")
def found(made):
    return compute_image_scores(*made, folds=4, seed=3, split="test")


def test_both_forms_are_scored_by_every_attacker(found, made):
    assert list(found.scores) == ["instances", "instances_source"]
    for scores in found.scores.values():
        check_table(SCORES, scores, "scores")
        assert scores.groupby("scorer", sort=False).size().to_dict() == dict.fromkeys(ATTACKERS, PAIRS)


def test_a_form_whose_positives_are_of_another_process_is_told_and_the_other_one_is_not(found):
    told = {name: form["pictures"]["features"]["all"] for name, form in found.figures["forms"].items()}
    assert told["instances_source"]["accuracy"] > 0.9
    assert told["instances"]["ci_low"] < 0.5 < told["instances"]["ci_high"]


def test_figures_are_those_of_the_scores_in_one_split(found, made):
    rows = made[0]["instances_source"]
    scores = found.scores["instances_source"].query("scorer == 'features'").set_index("negative_id")
    mine = scores.loc[rows.query("split == 'test' and type == 'swap'")["instance_id"]]
    gap = mine["positive_score"] - mine["negative_score"]
    figure = found.figures["forms"]["instances_source"]["pictures"]["features"]["swap_obj"]
    assert figure["accuracy"] == pytest.approx(((np.sign(gap) + 1) / 2).mean(), abs=1e-6)
    assert figure["n"] == len(mine) == 30


def test_a_type_that_is_too_few_is_a_state(found):
    assert found.figures["fewest"] == FEWEST
    figure = found.figures["forms"]["instances"]["pictures"]["network"]["only"]
    assert figure == {"accuracy": None, "ci_low": None, "ci_high": None, "n": 0, "unscored": 3}


def test_texts_and_pictures_that_both_tell_match_without_their_relation(found):
    joint = found.figures["forms"]["instances_source"]["joint"]["features"]
    assert set(joint) == {"group_match"}
    assert joint["group_match"]["all"]["n"] == 30
    assert joint["group_match"]["all"]["value"] > 0.9


def test_every_attacker_finds_what_was_planted(made, monkeypatch):
    monkeypatch.setattr(network, "STEPS", 60)
    forms, images, _ = made
    rows = forms["instances"].head(PAIRS)
    files = ([images[name] for name in rows[side]] for side in ("image_id", "negative_image_id"))
    found = run_planted_control(*files, CrossValidation(rows["instance_id"].tolist(), 4, 3))
    assert found["levels"] == 12
    for kind, key in (("pictures", "accuracy"), ("joint", "value")):
        assert set(found[kind]) == set(ATTACKERS)
        for name, figure in found[kind].items():
            assert figure["n"] == PAIRS
            assert figure["ci_low"] > 0.5, (kind, name, figure[key])


def test_the_control_is_among_the_figures_and_too_few_groups_have_none(found, made):
    assert set(found.figures["planted"]["pictures"]) == set(ATTACKERS)
    forms, images, _ = made
    rows = forms["instances"].head(FEWEST - 1)
    files = ([images[name] for name in rows[side]] for side in ("image_id", "negative_image_id"))
    few = run_planted_control(*files, CrossValidation(rows["instance_id"].tolist(), 4, 3))
    assert {figure["n"] for figure in few["pictures"].values()} == {0}


def test_the_order_of_rows_changes_nothing(found, made):
    forms, images, texts = made
    order = np.random.default_rng(1).permutation(PAIRS + 5)
    turned = {name: rows.iloc[order].reset_index(drop=True) for name, rows in forms.items()}
    again = compute_image_scores(
        turned, dict(reversed(images.items())), texts.iloc[::-1], folds=4, seed=3, split="test"
    )
    assert json.dumps(again.figures) == json.dumps(found.figures)


def test_equal_pictures_of_two_instances_are_in_one_fold_and_cluster(made):
    """Where all share one picture there is one group, and nothing can be attacked."""
    forms, images, texts = made
    first = next(iter(images.values()))
    same = {name: first if name.endswith(":drawn") else data for name, data in images.items()}
    found = compute_image_scores(forms, same, texts, folds=4, seed=3, split="test")
    assert all(scores.empty for scores in found.scores.values())


def test_no_instance_is_no_figure():
    forms, images, texts = world()
    none = {name: rows.iloc[:0] for name, rows in forms.items()}
    found = compute_image_scores(none, images, texts, folds=4, seed=3, split="test")
    assert found.figures["forms"] == {}
    assert {name: len(scores) for name, scores in found.scores.items()} == dict.fromkeys(forms, 0)


def test_tables_of_two_runs_are_refused(made):
    forms, images, texts = made
    with pytest.raises(DataError, match=r"missing from the table of images .*: 2\)"):
        compute_image_scores(forms, dict(list(images.items())[2:]), texts, folds=4, seed=3, split="test")
    fewer = {**forms, "instances_source": forms["instances_source"].iloc[1:]}
    with pytest.raises(DataError, match="'instances_source' and form 'instances' have different instances"):
        compute_image_scores(fewer, images, texts, folds=4, seed=3, split="test")


def test_texts_without_a_score_leave_the_joint_attacker_unscored(made):
    forms, images, texts = made
    found = compute_image_scores(forms, images, texts.iloc[:0], folds=4, seed=3, split="test")
    figure = found.figures["forms"]["instances"]["joint"]["features"]["group_match"]["all"]
    assert (figure["value"], figure["n"], figure["unscored"]) == (None, 0, 33)
    assert pd.notna(found.figures["forms"]["instances"]["pictures"]["features"]["all"]["accuracy"])
