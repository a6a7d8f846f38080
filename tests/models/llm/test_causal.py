from __future__ import annotations

from pathlib import Path

import pytest
from small_language_models import gpt2_folder
from test_chat import answers

from caramel.errors import BackendError
from caramel.interfaces.language_model import Request
from caramel.models.llm.causal import CausalLanguageModel, load_causal_model
from caramel.models.llm.sampling import GumbelMaxProcessor
from caramel.models.llm.specs import missing_language_model

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{{ m.role[0] }}{{ m.content }}{% endfor %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpt2_folder(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="module")
def model(folder: Path) -> CausalLanguageModel:
    return load_causal_model(str(folder), max_connections=3)


def request(words: str, temperature: float = 0.0, seed: int = 0) -> Request:
    return Request((("system", "s"), ("user", words)), temperature, seed, 8, None)


def test_a_reply_depends_on_its_request_and_not_on_its_batch(
    model: CausalLanguageModel, folder: Path
) -> None:
    requests = [
        request("ab"),
        request("a" * 9, 1.5, 1),
        request("ab", 1.5, 2),
        request("ab", 1.5, 3),
        request("b"),
    ]
    together = answers(model, requests)
    alone = load_causal_model(str(folder), max_connections=1)
    texts = {name: said.text for name, said in together.items()}
    assert texts == {name: said.text for name, said in answers(alone, requests).items()}
    assert len({texts["0"], texts["2"], texts["3"]}) == 3
    assert all(
        said.output_tokens and said.output_tokens <= 8 and said.input_tokens for said in together.values()
    )
    assert {said.finish_reason for said in together.values()} <= {"stop", "length"}


def test_without_heat_the_likeliest_tokens_are_written(model: CausalLanguageModel) -> None:
    import torch

    prompt = "s\n\nInput:\nab\n\nOutput:\n"
    ids = model._tokenizer(prompt, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        for _ in range(8):
            ids = torch.cat([ids, model._model(ids).logits[:, -1:].argmax(-1)], 1)
    wanted = model._tokenizer.decode(ids[0, -8:], skip_special_tokens=True)
    assert wanted.startswith(answers(model, [request("ab")])["0"].text)


def test_what_the_folder_says_on_how_to_generate_changes_no_reply_but_where_answers_end_tells_the_model(
    model: CausalLanguageModel, tmp_path: Path
) -> None:
    import json

    folder = gpt2_folder(tmp_path)
    settings = {"repetition_penalty": 9.0, "num_beams": 3, "no_repeat_ngram_size": 1}
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": model._ends, **settings}))
    other = load_causal_model(str(folder), max_connections=3)
    assert answers(other, [request("ab")])["0"].text == answers(model, [request("ab")])["0"].text
    assert other.identity == model.identity
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 3}))
    assert load_causal_model(str(folder), max_connections=3).identity != model.identity


def test_draws_follow_the_temperature() -> None:
    import torch

    logits = torch.tensor([[0.0, 1.0, 2.0]])
    n = 4000
    draws = GumbelMaxProcessor([request("", 2.0, seed) for seed in range(n)])(
        torch.zeros(n, 0), logits.repeat(n, 1)
    ).argmax(1)
    found = torch.bincount(draws, minlength=3) / n
    assert torch.allclose(found, torch.softmax(logits[0] / 2.0, 0), atol=0.03)


@pytest.mark.parametrize(
    ("truncation", "expected"),
    [
        ({"min_p": 0.5}, [0.0, 0.3775, 0.6225]),
        ({"top_p": 0.5}, [0.0, 0.0, 1.0]),
        ({"min_p": 1.0}, [0.0, 0.0, 1.0]),
    ],
)
def test_truncated_draws_are_those_of_the_renormalised_distribution(
    truncation: dict[str, float], expected: list[float]
) -> None:
    import torch

    logits, n = torch.tensor([[0.0, 1.0, 2.0]]), 4000  # at temperature 2: 0.186, 0.307, 0.506
    requests = [request("", 2.0, seed)._replace(**truncation) for seed in range(n)]
    draws = GumbelMaxProcessor(requests)(torch.zeros(n, 0), logits.repeat(n, 1)).argmax(1)
    assert torch.allclose(torch.bincount(draws, minlength=3) / n, torch.tensor(expected), atol=0.03)


def test_what_does_not_fit_into_the_model_is_told_and_the_others_are_answered(
    model: CausalLanguageModel,
) -> None:
    found = answers(model, [request("a" * 80), request("ab")])
    assert found["0"].text is None
    assert "the model takes 64" in found["0"].problem
    assert found["1"].text is not None


def test_a_chat_template_is_applied_also_one_that_knows_no_system(folder: Path, tmp_path: Path) -> None:
    model = load_causal_model(str(folder), max_connections=1)
    model._tokenizer.chat_template = TEMPLATE
    assert model._build_prompt(request("ab").messages) == "us\n\nab"
    model._tokenizer.chat_template = "{{ raise_exception('never') }}"
    with pytest.raises(BackendError, match="never"):
        model._build_prompt(request("ab").messages)


def test_weights_and_template_are_the_identity(model: CausalLanguageModel, folder: Path) -> None:
    other = load_causal_model(str(folder), max_connections=1)
    assert other.identity == model.identity
    other._tokenizer.chat_template = TEMPLATE
    assert other.identity != model.identity


def test_a_whole_folder_lacks_nothing_and_an_empty_one_is_told(folder: Path, tmp_path: Path) -> None:
    assert missing_language_model(f"local:{folder}#plain_text") == []
    assert missing_language_model(f"local:{tmp_path}") != []
