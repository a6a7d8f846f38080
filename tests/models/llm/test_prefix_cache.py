from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from real_models import SMOLLM2
from small_language_models import count_tokens, gpt2_folder
from test_chat import answers

from caramel.interfaces.language_model import Request
from caramel.models.llm import prefix_cache
from caramel.models.llm.causal import CausalLanguageModel, load_causal_model
from caramel.models.llm.prefix_cache import MOST, PrefixCache, count_common_tokens
from caramel.sources.captions.prompts.prompt_files import load_prompt

CAPTIONS = ["A dog runs.", "Two men and a cat sit on a big red car.", "A ball."]


def load(folder: Path, batch: int, monkeypatch: pytest.MonkeyPatch, *, cached: bool) -> CausalLanguageModel:
    with monkeypatch.context() as patch:
        if not cached:
            patch.setattr(prefix_cache, "has_plain_cache", lambda model: False)
        return load_causal_model(str(folder), max_connections=batch)


def prompts(rules: str, words: list[str], temperature: float = 0.0, tokens: int = 8) -> list[Request]:
    return [
        Request((("system", rules), ("user", text)), temperature, seed, tokens, None)
        for seed, text in enumerate(words)
    ]


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_answers_equal_those_without_stored_prefixes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    folder = gpt2_folder(tmp_path, n_positions=512)
    requests = [
        request
        for heat in (0.0, 1.0)
        for rules in ("Rules " * 30, "Other rules " * 20, "short")
        for request in prompts(rules, ["abc", "b" * 40, "xy"], heat)
    ]
    with_prefixes = load(folder, batch, monkeypatch, cached=True)
    outputs = answers(with_prefixes, requests)
    plain = answers(load(folder, 1, monkeypatch, cached=False), requests)
    assert {n: o._replace(seconds=0) for n, o in outputs.items()} == {
        n: o._replace(seconds=0) for n, o in plain.items()
    }
    assert len(with_prefixes._prefixes._prefixes) == 2


def test_what_requests_of_a_prompt_share_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(gpt2_folder(tmp_path, n_positions=512), 4, monkeypatch, cached=True)
    counts = count_tokens(model)
    answers(model, prompts("Rules " * 30, ["abcd"] * 4, tokens=1))
    assert counts[0] > 100
    read = len(counts)
    answers(model, prompts("Rules " * 30, ["efgh"] * 4, tokens=1))
    assert sum(counts[read:]) < 4 * 40


def test_a_batch_holds_requests_of_one_prompt_and_every_request_is_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(gpt2_folder(tmp_path), 2, monkeypatch, cached=True)
    batches: list[set[str]] = []
    generate = model.generate_outputs

    def record(requests: list[Request]) -> Any:
        batches.append({request.messages[0][1] for request in requests})
        return generate(requests)

    monkeypatch.setattr(model, "generate_outputs", record)
    requests = [
        one for pair in zip(prompts("a", ["x"] * 5), prompts("b", ["y"] * 5), strict=True) for one in pair
    ]
    assert len(answers(model, requests)) == 10
    assert all(len(batch) == 1 for batch in batches)
    assert len(batches) == 6


def test_the_beginning_of_a_prompt_shrinks_to_what_all_of_its_requests_share_and_is_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefixes = load(gpt2_folder(tmp_path, n_positions=512), 1, monkeypatch, cached=True)._prefixes
    begin = list(range(60))
    first = prefixes.compute_prefix(("system", "s"), [[*begin, 1, 2]])
    assert first is not None
    assert len(first.ids) == 61, "one token at least is left"
    monkeypatch.setattr(PrefixCache, "_compute_states", None)
    second = prefixes.compute_prefix(("system", "s"), [[*begin, 3], [*begin, 4, 5]])
    assert second is not None
    assert second.ids == begin
    assert {keys.shape[2] for layer in second.states for keys in layer} == {60}


def test_the_prompts_used_last_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefixes = load(gpt2_folder(tmp_path, n_positions=64), 1, monkeypatch, cached=True)._prefixes
    row = list(range(50))
    for number in [*range(MOST), 0, MOST]:
        prefixes.compute_prefix(("system", str(number)), [row])
    assert [name for _, name in prefixes._prefixes] == [*map(str, range(2, MOST)), "0", str(MOST)]


def test_models_with_other_states_than_keys_and_values_store_none() -> None:
    from transformers import Lfm2Config, Lfm2ForCausalLM, MistralConfig, MistralForCausalLM

    sizes = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    with_window = MistralForCausalLM(MistralConfig(**sizes, **heads, sliding_window=8))
    without = MistralForCausalLM(MistralConfig(**sizes, **heads, sliding_window=None))
    convolution = Lfm2ForCausalLM(Lfm2Config(**sizes, **heads, layer_types=["conv", "full_attention"]))
    supported = [prefix_cache.has_plain_cache(model) for model in (with_window, without, convolution)]
    assert supported == [False, True, False]


def test_the_tokens_that_rows_share_are_counted() -> None:
    assert count_common_tokens([[1, 2, 3]]) == 3
    assert count_common_tokens([[1, 2, 3], [1, 2], [1, 2, 4, 5]]) == 2
    assert count_common_tokens([[1], [2]]) == 0


@pytest.mark.skipif(not SMOLLM2.is_dir(), reason="SmolLM2 is not there: make dev")
def test_a_real_model_gives_the_same_answers_and_reads_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [
        Request(load_prompt("find_obj").build_messages({"sentence": caption}, 7), 0.0, 0, 8, None)
        for caption in CAPTIONS
    ]
    outputs, counts = [], []
    for cached in (True, False):
        model = load(SMOLLM2, 2, monkeypatch, cached=cached)
        answers(model, requests[:1])
        counts.append(count_tokens(model))
        outputs.append({name: output.text for name, output in answers(model, requests).items()})
    assert outputs[0] == outputs[1]
    assert sum(counts[0]) < sum(counts[1]) / 5
