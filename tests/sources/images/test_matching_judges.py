from pathlib import Path

import numpy as np
import pytest
from real_models import SPACY
from small_transformers import blip_folder, picture
from tiny_generative import save_llava

from caramel.errors import BackendError
from caramel.interfaces.scene_graph import Edge, Node, SceneGraph
from caramel.models.specs import open_model
from caramel.sources.images import matching_judges
from caramel.sources.images.judge_specs import check_judge_spec, list_judge_problems, load_judge

GRAPH = SceneGraph((Node("cat", ("blue",)), Node("table")), (Edge(0, "on", 1),))
IMAGES = [picture(0), picture(1), picture(0)]
CAPTIONS = ["A red dog.", "A red dog.", "A blue cat on a table."]
SETTINGS = {"checkpoint": "", "device": "cpu", "allow_unmentioned_objects": False}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return blip_folder(tmp_path_factory.mktemp("judge") / "blip")


@pytest.fixture(scope="module")
def llava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llava(tmp_path_factory.mktemp("judge") / "llava")


def test_a_matching_head_judges_by_its_probability_of_a_match(blip: Path) -> None:
    fits = load_judge(f"itm:{blip}", **SETTINGS).score_match(IMAGES, CAPTIONS)
    model = open_model(f"itm:{blip}", "cpu", "fp32")
    logits = model.match_pairs(IMAGES[:2], CAPTIONS[1:], np.array([0, 1, 0]), np.array([0, 0, 1]), None)
    np.testing.assert_allclose(fits, 1 / (1 + np.exp(-logits)), rtol=1e-5)


def test_a_generative_model_judges_by_its_probability_of_yes(llava: Path) -> None:
    fits = load_judge(f"vqascore:{llava}", **SETTINGS).score_match(IMAGES, CAPTIONS)
    model = open_model(f"vqascore:{llava}", "cpu", "fp32")
    logs = model.match_pairs(IMAGES[:2], CAPTIONS[1:], np.array([0, 1, 0]), np.array([0, 0, 1]), None)
    np.testing.assert_allclose(fits, np.exp(logs), rtol=1e-4)


def test_questions_give_the_lowest_probability_of_the_captions_parts(llava: Path) -> None:
    caption = CAPTIONS[2]
    parts = matching_judges.build_questions(caption, parse=lambda texts: [GRAPH] * len(texts))
    assert parts == ["table", "blue cat", "cat on table"]
    whole = load_judge(f"vqascore:{llava}", **SETTINGS)
    of_parts = whole.score_match([IMAGES[0]] * len(parts), parts)
    judge = matching_judges.MatchingJudge("questions", "vqascore", str(llava), "cpu", lambda text: parts)
    (fit,) = judge.score_match([IMAGES[0]], [caption])
    assert fit == pytest.approx(of_parts.min(), rel=1e-4)


def test_a_spacy_model_parses_the_caption_into_questions(llava: Path) -> None:
    pytest.importorskip(SPACY, reason=f"{SPACY} is not installed: make dev")
    judge = load_judge(f"questions:{llava}@{SPACY}", **SETTINGS)
    parts = judge._split("A blue cat sleeps on a wooden table.")
    assert {"blue cat", "wooden table"} <= set(parts)
    assert any(part.startswith("cat ") for part in parts)
    assert judge._split("") == [""]


def test_scores_are_computed_once(blip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = load_judge(f"itm:{blip}", **SETTINGS)
    first = judge.score_match(IMAGES, CAPTIONS)
    again = load_judge(f"itm:{blip}", **SETTINGS)
    monkeypatch.setattr(matching_judges, "_load_matcher", None)
    assert again.score_match(IMAGES[::-1], CAPTIONS[::-1]).tolist() == first[::-1].tolist()


def test_no_images_have_no_fits(blip: Path) -> None:
    assert load_judge(f"itm:{blip}", **SETTINGS).score_match([], []).shape == (0,)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("itm", "write itm:FOLDER"),
        ("vqascore:", "write vqascore:FOLDER"),
        ("questions:folder", "write questions:MODEL@SPACY"),
        ("clip:ViT-B-32", "takes no target"),
    ],
)
def test_a_spec_of_the_wrong_form_says_how_to_write_it(spec: str, message: str) -> None:
    (problem,) = check_judge_spec(spec)
    assert message in problem
    with pytest.raises(BackendError, match=message):
        load_judge(spec, **SETTINGS)


def test_a_missing_model_is_found_without_loading_it(blip: Path) -> None:
    assert list_judge_problems(f"itm:{blip}") == []
    assert list_judge_problems("itm:nowhere/at/all")
    assert list_judge_problems(f"vqascore:{blip}")
    assert list_judge_problems("world") == []
