from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_language_models import TEXTS, cola_folder, masked_folder

from caramel.errors import BackendError
from caramel.registry import TEXT_JUDGES

NLI = {"id2label": {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small checkpoints: of inference, in two orders of its labels, of grammar with names and without, and of neither."""
    folder = tmp_path_factory.mktemp("judges")
    cola_folder(folder / "nli", **NLI)
    turned = {"id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}}
    cola_folder(folder / "turned", **turned)
    cola_folder(folder / "cola")
    cola_folder(folder / "named", id2label={0: "acceptable", 1: "unacceptable"})
    cola_folder(folder / "three", num_labels=3)
    masked_folder(folder / "masked")
    return folder


def by_hand(folder: Path, texts: tuple[str, ...], label: int) -> float:
    """Return the probability of a label by a plain forward pass."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        inputs = AutoTokenizer.from_pretrained(folder)(
            *texts, return_tensors="pt", truncation=True, max_length=64
        )
        return float(model(**inputs).logits.softmax(-1)[0, label])


@pytest.mark.parametrize(("name", "label"), [("nli", 2), ("turned", 0)])
def test_entailment_is_the_probability_of_the_label_of_that_name_wherever_it_stands(
    folders: Path, name: str, label: int
) -> None:
    rows = [(TEXTS[1], TEXTS[2]), (TEXTS[2], TEXTS[1]), (TEXTS[0] * 60, TEXTS[3])]
    judge = TEXT_JUDGES["entailment"].load(str(folders / name))
    wanted = [by_hand(folders / name, row, label) for row in rows]
    assert judge.predict_probabilities(rows) == pytest.approx(wanted, abs=1e-5)
    assert wanted[0] != pytest.approx(wanted[1], abs=1e-4), "the order of the two texts matters"
    assert TEXT_JUDGES["entailment"].missing(str(folders / name)) == []


@pytest.mark.parametrize(("name", "label"), [("cola", 1), ("named", 0)])
def test_grammar_is_the_label_for_acceptable_by_its_name_and_else_the_second(
    folders: Path, name: str, label: int
) -> None:
    rows = [(text,) for text in TEXTS if text]
    judge = TEXT_JUDGES["grammar"].load(str(folders / name))
    assert judge.predict_probabilities(rows) == pytest.approx(
        [by_hand(folders / name, row, label) for row in rows], abs=1e-5
    )
    assert (
        judge.identity != TEXT_JUDGES["grammar"].load(str(folders / "three/../cola")).identity
        or name == "cola"
    )


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("entailment", "cola", "labels .'label_0', 'label_1'.*'entailment'.*roberta-large-mnli"),
        ("grammar", "three", "labels .'label_0', 'label_1', 'label_2'.*'acceptable'"),
        ("grammar", "nli", "'entailment'.*'acceptable'.*CoLA"),
        ("entailment", "masked", "'label_0', 'label_1'"),
        ("entailment", "nowhere", "nowhere"),
    ],
)
def test_a_folder_of_another_kind_is_told_before_its_weights_are_read(
    folders: Path, kind: str, name: str, said: str
) -> None:
    import re

    (problem,) = TEXT_JUDGES[kind].missing(str(folders / name))
    assert re.search(said, problem)
    with pytest.raises(BackendError, match=said):
        TEXT_JUDGES[kind].load(str(folders / name))


@pytest.mark.parametrize(
    "labels", [[], {"a": "entailment"}, {"0": None}, "entailment", {"0": "entailment", "1": "entailment"}]
)
def test_labels_of_a_broken_config_are_told(folders: Path, tmp_path: Path, labels: object) -> None:
    config = json.loads((folders / "nli/config.json").read_text())
    for file in (folders / "nli").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text(json.dumps({**config, "id2label": labels}))
    (problem,) = TEXT_JUDGES["entailment"].missing(str(tmp_path))
    assert "has the labels" in problem
