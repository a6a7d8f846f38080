"""Joint states of ViLT are its own [CLS] vectors, and SugarCrepe++ is judged by their cosines as the authors do."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_transformers import CAPTIONS, blip_folder, picture, vilt_folder

from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.metrics import compute_outcomes
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import BackendError, ConfigError, DataError
from caramel.evaluation.compatibility import find_incompatibility
from caramel.evaluation.metamorphic.rates import check_model
from caramel.evaluation.scores.encoding import RunConfig, encode_items
from caramel.evaluation.scores.scoring import compute_similarities
from caramel.interfaces.benchmark import Comparisons, ImageFile
from caramel.interfaces.model import JointEncoder, Matcher
from caramel.interfaces.settings import Compute
from caramel.models.specs import get_family, missing_of, open_model
from caramel.models.transformers.joint_states import load_joint_states
from caramel.registry import BENCHMARKS
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import SIMILARITIES

FILES = [picture(seed, size) for seed, size in enumerate([(40, 32), (32, 50), (64, 64)])]
METRICS = ("itt", "accuracy", "p2_vs_n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a checkpoint as the pre-trained one is published: with the head of masked words."""
    return vilt_folder(tmp_path_factory.mktemp("joint") / "vilt", "ViltForMaskedLM")


@pytest.fixture(scope="module")
def states(folder: Path) -> np.ndarray:
    """Return transformers' own [CLS] of each image with each caption, (images, captions, d), one pair at a time."""
    import torch
    from transformers import AutoTokenizer, ViltImageProcessorPil, ViltModel

    model = ViltModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    processor = ViltImageProcessorPil.from_pretrained(folder)
    rows = []
    for file, caption in itertools.product(FILES, CAPTIONS):
        given = {**processor(Image.open(io.BytesIO(file)), return_tensors="pt")}
        given |= dict(tokenizer(caption, return_tensors="pt"))
        with torch.no_grad():
            rows.append(model(**given).last_hidden_state[0, 0].numpy())
    return np.array(rows, np.float64).reshape(len(FILES), len(CAPTIONS), -1)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def build_task(folder: Path, **changes: object) -> Comparisons:
    """Return instances of every choice of an image and three of the first four captions."""
    images = []
    for number, file in enumerate(FILES):
        path = folder / f"{number}.png"
        path.write_bytes(file)
        images.append(ImageFile(str(path)))
    cells = itertools.product(range(len(FILES)), itertools.permutations(range(4), 3))
    rows = [
        {
            "instance_id": f"{image}-{p1}{p2}{n}",
            "image_id": f"{image}.png",
            "subsets": [],
            "image": image,
            "caption": CAPTIONS[p1],
            "caption2": CAPTIONS[p2],
            "negative_caption": CAPTIONS[n],
            **changes,
        }
        for image, (p1, p2, n) in cells
    ]
    return build_comparisons(rows, images)


def test_vectors_are_the_models_own_class_states(folder: Path, states: np.ndarray) -> None:
    model = load_joint_states(str(folder), device="cpu", precision="fp32", name="it")
    image_of = np.repeat(np.arange(len(FILES)), len(CAPTIONS))
    text_of = np.tile(np.arange(len(CAPTIONS)), len(FILES))
    found = model.encode_pairs(FILES, CAPTIONS, image_of, text_of, None)
    expected = states.reshape(len(image_of), -1)
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)
    assert expected.std(0).max() > 0.1  # image and caption both matter
    assert isinstance(model, JointEncoder)
    assert not isinstance(model, Matcher)
    assert model.identity["state"] == "cls"


def test_verdicts_are_those_of_the_authors_inequalities(
    folder: Path, states: np.ndarray, tmp_path: Path
) -> None:
    task = build_task(tmp_path)
    run = RunConfig(f"joint_states:{folder}", Compute("cpu", "fp32"), None, str(tmp_path / "store"), "inline")
    rows = compute_similarities(task, check_images(task.images, "test"), run, benchmark="sugarcrepe_pp")
    check_table(SIMILARITIES, rows, "test")
    assert set(rows["score_type"]) == {"joint_states"}
    outcomes = compute_outcomes(rows, METRICS)
    for position, (image, (p1, p2, n)) in enumerate(
        itertools.product(range(len(FILES)), itertools.permutations(range(4), 3))
    ):
        p1_p2, p1_neg, p2_neg = (
            cosine(states[image, a], states[image, b]) for a, b in ((p1, p2), (p1, n), (p2, n))
        )
        found = rows.iloc[position][["s_c1_i0", "s_c0_i0", "s_c2_i0"]].to_numpy(float)
        np.testing.assert_allclose(found, [-p1_p2, -p1_neg, -p2_neg], atol=1e-5)
        expected = [p1_p2 > p1_neg and p1_p2 > p2_neg, p1_p2 > p1_neg, p1_p2 > p2_neg]
        assert outcomes.hits.iloc[position].tolist() == expected
    assert 0 < outcomes.hits["itt"].mean() < 1
    assert rows[["s_c0_i1", "s_c1_i1", "t_p1_p2"]].isna().all(axis=None)  # it has no text encoder of its own


def test_captions_of_equal_tokens_tie(folder: Path, tmp_path: Path) -> None:
    task = build_task(tmp_path, caption="a dog", caption2="the red car", negative_caption="A DOG")
    run = RunConfig(f"joint_states:{folder}", Compute("cpu", "fp32"), 3, str(tmp_path / "store"), "inline")
    rows = compute_similarities(task, check_images(task.images, "test"), run, benchmark="b")
    assert (rows["s_c1_i0"] == rows["s_c2_i0"]).all()


def test_it_needs_two_true_captions_and_gives_no_score_of_one(folder: Path, tmp_path: Path) -> None:
    spec = f"joint_states:{folder}"
    assert find_incompatibility(spec, BENCHMARKS["sugarcrepe_pp"], build_task(tmp_path)) is None
    for missing in ({"caption2": None}, {"negative_caption": None, "negative_image": 0}):
        task = build_task(tmp_path, **missing)
        reason = find_incompatibility(spec, BENCHMARKS["sugarcrepe_pp"], task)
        assert "two true captions and a negative" in str(reason)
        with pytest.raises(BackendError, match="some instances do not have these"):
            compute_similarities(
                task, [b""] * 3, RunConfig(spec, Compute("cpu", "fp32"), 1, "", "inline"), benchmark="b"
            )
    with pytest.raises(ConfigError, match="gives no score for an image and a text"):
        check_model(spec)
    model = open_model(spec, "cpu", "fp32")
    run = RunConfig(spec, Compute("cpu", "fp32"), 1, str(tmp_path), "inline")
    with pytest.raises(BackendError, match="gives no score of one of them"):
        encode_items([], [], [], lambda: (np.zeros(0, int), np.zeros(0, int)), run, model)  # type: ignore[arg-type]


def test_another_model_and_an_unreadable_image_are_named(folder: Path, tmp_path: Path) -> None:
    assert missing_of(f"joint_states:{folder}") == []
    assert get_family(f"joint_states:{folder}").looks_at_images
    blip = blip_folder(tmp_path / "blip")
    (problem,) = missing_of(f"joint_states:{blip}")
    assert "is a model of type 'blip'. Write itm:" in problem
    model = load_joint_states(str(folder), device="cpu", precision="fp32", name="it")
    with pytest.raises(DataError, match="number 0"):
        model.encode_pairs([b"no picture"], ["a dog"], np.array([0]), np.array([0]), None)
