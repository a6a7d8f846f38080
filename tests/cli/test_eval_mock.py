"""`caramel eval --mock` tries a model on one made instance of every benchmark and says which of them failed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from chat_server import ChatServer, always
from small_transformers import bert_folder, blip_folder

from caramel.benchmarks.image_files import check_images
from caramel.evaluation.mock.images import draw_mock_image
from caramel.evaluation.mock.run import MOCKED, build_mock_task, run_mock
from caramel.interfaces.model import Family
from caramel.interfaces.settings import Compute
from caramel.models.specs import open_model
from caramel.registry import BENCHMARKS, FAMILIES

Call = Callable[..., tuple[int, str, str]]
CPU = Compute("cpu", "fp32")


class Encoder:
    """A model that somebody adds: with planted faults."""

    identity = {"weights": "1"}  # noqa: RUF012

    def __init__(self, name: str, fault: str) -> None:
        self.name, self.fault = name, fault

    def encode_images(self, images: list[bytes], batch_size: int | None) -> np.ndarray:
        return np.eye(8, dtype=np.float32)[np.arange(len(images)) % 8]

    def encode_texts(self, texts: list[str], batch_size: int | None) -> np.ndarray:
        if self.fault == "raises" and any("mug" in text for text in texts):
            raise IndexError("token out of range")
        vectors = np.eye(8, dtype=np.float32)[np.arange(len(texts)) % 8]
        return vectors * np.nan if self.fault == "nan" else vectors


def load_planted(target: str, *, device: str, precision: str, name: str) -> Encoder:
    return Encoder(name, target)


PLANTED = Family("planted", "dual", "FAULT", "", load_planted, lambda target: [])


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The family ``planted``, whose target is its fault, as if it were registered."""
    monkeypatch.setitem(FAMILIES.targets, "planted", "test_eval_mock:PLANTED")
    open_model.cache_clear()
    yield
    open_model.cache_clear()


def states(model: str, *names: str) -> dict[str, str]:
    return {r.benchmark: r.state for r in run_mock(model, names or MOCKED, compute=CPU, batch_size=None)}


def test_every_benchmark_of_caramel_has_a_made_instance() -> None:
    assert {*MOCKED} == {*BENCHMARKS.targets}


@pytest.mark.parametrize("name", MOCKED)
def test_a_made_instance_is_one_in_the_benchmarks_own_format(name: str, tmp_path: Path) -> None:
    task = build_mock_task(BENCHMARKS[name], tmp_path)
    assert len(task.rows) == 1
    assert len(check_images(task.images, name)) == len(task.images) > 0


def test_made_images_are_equal_again_and_differ_from_each_other() -> None:
    assert draw_mock_image(0) == draw_mock_image(0) != draw_mock_image(1)


def test_a_model_that_works_passes_everywhere_and_nothing_is_written(planted: None, eval_call: Call) -> None:
    before = sorted(Path().rglob("*"))
    code, out, _ = eval_call("eval", "--model", "planted:no", "--mock")
    assert code == 0
    assert out.splitlines()[0] == f"planted:no: {len(MOCKED)} passed"
    assert out.splitlines()[5].split() == ["sugarcrepe", "passed", "accuracy"]
    assert sorted(Path().rglob("*")) == before


def test_an_exception_of_a_model_is_named_with_its_line_where_it_occurs_and_the_rest_is_tried(
    planted: None, eval_call: Call
) -> None:
    code, out, _ = eval_call("eval", "--model", "planted:raises", "--mock", "--json")
    assert code == 1
    answer = json.loads(out)
    assert not answer["passed"]
    failed = {row["benchmark"]: row["message"] for row in answer["results"] if row["state"] == "failed"}
    assert {*failed} == {"whatsup_a", "whatsup_b"}  # their captions are about mugs
    assert failed["whatsup_a"].startswith("IndexError: token out of range (")
    assert "test_eval_mock.py, line" in failed["whatsup_a"]


def test_a_score_that_is_nan_fails(planted: None) -> None:
    assert states("planted:nan", "sugarcrepe", "coco_retrieval") == {
        "sugarcrepe": "failed",
        "coco_retrieval": "failed",
    }


def test_what_models_of_a_form_cannot_be_scored_on_is_no_failure(tmp_path: Path) -> None:
    counts = Counter(states(f"text:{bert_folder(tmp_path / 'bert')}?pooling=mean").values())
    assert counts["failed"] == 0
    assert counts["passed"] >= 3  # those with paraphrases
    assert counts["unsuitable"] == len(MOCKED) - counts["passed"]


def test_a_matching_head_passes_everywhere(tmp_path: Path) -> None:
    assert {*states(f"itm:{blip_folder(tmp_path / 'blip')}").values()} == {"passed"}


def test_a_model_that_answers_in_words_is_asked_where_it_can_be() -> None:
    server = ChatServer(always("1"))
    try:
        tried = states(f"chat:m@{server.url}", "sugarcrepe", "coco_retrieval")
    finally:
        server.close()
    assert tried == {"sugarcrepe": "passed", "coco_retrieval": "unsuitable"}
    assert server.requests


def test_a_benchmark_without_a_made_instance_lists_the_choices(eval_call: Call) -> None:
    code, _, err = eval_call("eval", "--model", "blind:length", "--mock", "--benchmark", "sugarcrep")
    assert code == 1
    assert "Did you mean 'sugarcrepe'?" in err


@pytest.mark.parametrize("option", ["--benchmark", "--data", "--out"])
def test_without_mock_the_options_of_an_evaluation_are_required(eval_call: Call, option: str) -> None:
    words = {"--benchmark": "sugarcrepe", "--data": "data", "--out": "out"}
    given = [word for name, value in words.items() if name != option for word in (name, value)]
    code, _, err = eval_call("eval", "--model", "blind:length", *given)
    assert code == 2
    assert f"Missing option '{option}'" in err
