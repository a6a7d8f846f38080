from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from real_models import SMOLLM2
from small_language_models import gpt2_folder
from test_chat import answers

from caramel.errors import BackendError
from caramel.interfaces.language_model import Request
from caramel.models.llm.causal import CausalLanguageModel, load_causal_model
from caramel.sources.captions.prompts.prompt_files import load_prompt

pytest.importorskip("llguidance")
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "new": {"type": "string", "maxLength": 6},
            "all": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
        },
        "required": ["new", "all"],
        "additionalProperties": False,
    }
)


def request(
    words: str, temperature: float = 0.0, seed: int = 0, tokens: int = 60, schema: str | None = SCHEMA
) -> Request:
    return Request((("system", "s"), ("user", words)), temperature, seed, tokens, schema)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CausalLanguageModel:
    folder = gpt2_folder(tmp_path_factory.mktemp("gpt2"), n_positions=256)
    return load_causal_model(str(folder), max_connections=4)


def test_answers_are_of_the_schema_at_any_temperature_and_others_of_the_batch_are_free(
    model: CausalLanguageModel,
) -> None:
    requests = [request("ab", heat, seed) for heat in (0.0, 3.0) for seed in range(3)]
    outputs = answers(model, [*requests, request("ab", schema=None)])
    for name in map(str, range(6)):
        assert outputs[name].finish_reason == "stop"
        answer = json.loads(outputs[name].text or "")
        assert [*answer] == ["new", "all"]
        assert len(answer["new"]) <= 6
        assert {*answer["all"]} <= {"a", "b"}
    assert len({outputs[str(n)].text for n in (3, 4, 5)}) == 3
    assert not (outputs["6"].text or "").startswith("{")


def test_a_constrained_answer_does_not_depend_on_its_batch(model: CausalLanguageModel) -> None:
    requests = [request("ab" * n, 1.5, n) for n in range(1, 6)]
    alone = [model.generate_outputs([one])[0].text for one in requests]
    assert [output.text for output in answers(model, requests).values()] != []
    assert alone == [output.text for output in model.generate_outputs(requests)]


def test_an_answer_that_reaches_the_limit_of_tokens_breaks_off(model: CausalLanguageModel) -> None:
    output = answers(model, [request("ab", tokens=5)])["0"]
    assert (output.finish_reason, output.output_tokens) == ("length", 5)
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(output.text or "")


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "cannot be enforced"),
        ("[]", "cannot be enforced"),
        ('{"type": "strin"}', "Invalid type: strin"),
        ('{"enum": []}', "Unsatisfiable schema"),
        ('{"type": "string", "minLength": 3, "maxLength": 2}', "Unsatisfiable schema"),
    ],
)
def test_a_schema_that_is_none_or_that_nothing_satisfies_is_an_error(
    model: CausalLanguageModel, schema: str, problem: str
) -> None:
    with pytest.raises(BackendError, match=problem):
        answers(model, [request("ab", schema=schema)])


def load_without(letter: str, folder: Path) -> CausalLanguageModel:
    """Return a model whose tokenizer lacks a character."""
    path = gpt2_folder(folder, n_positions=256) / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["\u0119"] = vocabulary.pop(letter)  # a character that stands for no byte of ASCII
    path.write_text(json.dumps(content))
    return load_causal_model(str(folder), max_connections=4)


@pytest.mark.parametrize("letter", ["{", "}"])
def test_an_answer_that_no_token_continues_has_a_problem_and_the_others_are_answered(
    tmp_path: Path, letter: str
) -> None:
    model = load_without(letter, tmp_path)
    outputs = answers(model, [request("ab"), request("ab", schema=None)])
    assert outputs["0"].text is None
    assert "no token of the model continues the answer" in outputs["0"].problem
    assert "\n" not in outputs["0"].problem
    assert outputs["1"].text is not None


def test_without_the_package_the_error_says_how_to_install_it(
    model: CausalLanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CausalLanguageModel(model._model, model._tokenizer, 1)
    monkeypatch.setitem(sys.modules, "llguidance.hf", None)
    with pytest.raises(BackendError, match="pip install llguidance"):
        answers(other, [request("ab")])
    assert answers(other, [request("ab", schema=None)])["0"].text is not None


def test_a_tokenizer_that_the_package_cannot_read_is_an_error(model: CausalLanguageModel) -> None:
    other = CausalLanguageModel(model._model, model._tokenizer, 1)
    other._ends = 10_000
    with pytest.raises(BackendError, match="llguidance cannot read the tokenizer"):
        answers(other, [request("ab")])


@pytest.mark.skipif(not SMOLLM2.is_dir(), reason="SmolLM2 is not there: make dev")
def test_a_real_model_answers_in_the_form_of_a_prompt_at_a_temperature_that_gives_garbage_else() -> None:
    model, prompt = load_causal_model(str(SMOLLM2), max_connections=4), load_prompt("replace_obj_propose")
    messages = prompt.build_messages({"sentence": "A dog runs on the beach.", "object": "dog"}, 2)
    requests = [Request(messages, 1.5, seed, 24, prompt.format_schema_text(), min_p=0.1) for seed in range(3)]
    outputs = answers(model, requests)
    complete = [output for output in outputs.values() if output.finish_reason == "stop"]
    assert complete
    assert all([*json.loads(output.text or "")] == ["new"] for output in complete)
