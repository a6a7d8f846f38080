"""The small language model: its template, its batches, and the folder that others load."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caramel.interfaces.language_model import Request
from caramel.models.llm.causal import load_causal_model
from caramel.sources.captions.lm_training_data import sample_example
from caramel.sources.captions.prompts.prompt_files import FailedAnswer, list_prompt_names, load_prompt
from caramel.training.recipes.caption_lm import (
    FIXED,
    IGNORED,
    CaptionModelConfig,
    build_conversation,
    make_model,
    make_tokenizer,
    pack_examples,
    train_writer,
)
from caramel.utils.typed_settings import build_settings

SETTINGS: dict[str, Any] = {
    "seed": 1, "steps": 4, "batch_size": 4, "lr": 0.003, "warmup_steps": 1, "hidden_size": 32, "num_layers": 2,
    "checkpoint_every": 2, "device": "cpu", "precision": "fp32", **FIXED,
}  # fmt: skip
LESSONS = [sample_example(np.random.default_rng(i)) for i in range(200)]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer(LESSONS)


def test_the_template_keeps_the_task_what_is_given_and_answers_that_did_not_do(tokenizer: Any) -> None:
    given = {"sentence": "A red ball."}
    for examples in (0, 7):
        for name in ("swap_obj", "find_att"):
            failed = (FailedAnswer("A ball.", "negligible change"), FailedAnswer("{", "not the form"))
            messages = load_prompt(name).build_messages(given, examples, failed)
            turns = [{"role": role, "content": words} for role, words in messages]
            text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
            told = f"<|{name}|><|user|>Sentence: A red ball.<|again|>A ball.<|again|>{{<|assistant|>"
            assert text == told
    whole = f"<|{list_prompt_names()[0]}|><|assistant|>"
    assert len(tokenizer(whole)["input_ids"]) == 2, "names of tasks are tokens"


def test_any_text_can_be_told_and_read_back(tokenizer: Any) -> None:
    for text in ('{"new": "Ünïcode 🎈 Ελ"}', "A ball  and\n a box.", 'He said: "a box" ["b", "c"]'):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    pieces = tokenizer.tokenize('A ball, "ball"')
    assert pieces.count("Ġball") == 2, "a word is one token, wherever it stands"


def test_conversations_in_one_row_are_kept_apart(tokenizer: Any) -> None:
    """All but the first tokens of one, where convolutions see the one before; on average, as weights are random."""
    import torch

    near, far = 0.0, 0.0
    for seed in range(3):
        torch.manual_seed(seed)
        model = make_model(tokenizer, 32, 2).eval()
        for start in range(0, 20, 2):
            first, second = (pack_examples(tokenizer, [one]) for one in LESSONS[start : start + 2])
            whole = pack_examples(tokenizer, LESSONS[start : start + 2])
            begin = first.tokens.shape[1]
            assert whole.tokens.shape == (1, begin + second.tokens.shape[1])
            with torch.inference_mode():
                wanted = model(second.tokens, position_ids=second.position_ids, use_cache=False).logits[0, 6:]
                apart = model(whole.tokens, position_ids=whole.position_ids, use_cache=False).logits[
                    0, begin + 6 :
                ]
                mixed = model(whole.tokens, use_cache=False).logits[0, begin + 6 :]
            near += float((apart - wanted).abs().mean())
            far += float((mixed - wanted).abs().mean())
    assert near < far / 2, (near, far)


def test_what_is_learnt_is_the_answer_and_its_end(tokenizer: Any) -> None:
    batch = pack_examples(tokenizer, LESSONS[:1])
    learnt = batch.labels[0][batch.labels[0] != IGNORED]
    assert tokenizer.decode(learnt).endswith('"}<|end|>') or tokenizer.decode(learnt).endswith("]}<|end|>")
    assert tokenizer.decode(batch.tokens[0]).startswith(f"<|{LESSONS[0].prompt}|><|user|>")


def test_equal_seeds_give_equal_weights_also_after_a_crash_and_local_loads_them(tmp_path: Path) -> None:
    settings = build_settings(CaptionModelConfig, SETTINGS)
    curve = train_writer(settings, scratch=tmp_path / "s1", out=tmp_path / "once")
    assert {name for _, name, _ in curve} == {"loss", "right"}
    train_writer(settings, scratch=tmp_path / "s2", out=tmp_path / "again")
    next((tmp_path / "s2").glob("step-00000004.*")).unlink()
    shutil.rmtree(tmp_path / "again")
    train_writer(settings, scratch=tmp_path / "s2", out=tmp_path / "again")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("once", "again")]
    assert weights[0] == weights[1]
    model = load_causal_model(str(tmp_path / "once"), max_connections=2)
    heard: dict[str, Any] = {}
    asked = [
        ("a", Request(build_conversation(LESSONS[0]), 0.0, 0, 8, None)),
        ("b", Request(build_conversation(LESSONS[1]), 1.5, 3, 8, None)),
    ]
    waiting = [asked]
    model.answer_requests(
        lambda number: waiting.pop() if waiting else [], lambda name, said: heard.update({name: said})
    )
    assert all(said.text is not None and said.input_tokens < 60 for said in heard.values())
