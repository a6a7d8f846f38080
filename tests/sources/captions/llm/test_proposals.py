"""Proposals are checked before anything is composed, and malformed answers cost one attempt."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from llama_server import serve_gguf
from obliging_writer import MODEL, pairs_of
from real_models import find_gguf
from scripted_model import play_script

from caramel.interfaces.language_model import ModelOutput
from caramel.sources.captions.llm.caption_editor import CaptionEditor
from caramel.sources.captions.llm.checks import REASONS, Bounds
from caramel.sources.captions.llm.conversation import (
    MALFORMED,
    NO_REPLY,
    TRIES,
    Outcome,
    PromptInput,
    ScriptRules,
)
from caramel.sources.captions.llm.proposals import trim_proposal
from caramel.sources.captions.llm.workflows import write_negative, write_paraphrase
from caramel.sources.captions.llm.writer import language_negatives

BOUNDS = Bounds(2.0, 0.999, 1, 0.3, 0.5, 0.5)
CAPTION = "A brown dog next to a couch."
EDIT = ScriptRules(3, tuple(REASONS), BOUNDS, validate=True, editor=CaptionEditor(None))
MODEL_COMPOSES = ScriptRules(3, tuple(REASONS), BOUNDS, validate=True)
NO = '{"follows": "no"}'


def run(
    subtype: str, rules: ScriptRules, answers: dict[str, list[str | None]], caption: str = CAPTION
) -> tuple[Outcome, list[PromptInput]]:
    """Run a script on the answers to each prompt, in turn and then the last; return also what was asked."""

    def answer(asked: list[PromptInput]) -> str | None:
        texts = answers[asked[-1].prompt]
        turn = sum(one.prompt == asked[-1].prompt for one in asked) - 1
        return texts[min(turn, len(texts) - 1)]

    script = write_negative(
        caption, subtype, frozenset(caption.lower().strip(".").split()), np.random.default_rng, rules
    )
    return play_script(script, answer)


@pytest.mark.parametrize("rules", [EDIT, MODEL_COMPOSES], ids=["edit", "model"])
@pytest.mark.parametrize(
    ("subtype", "found", "new", "reason"),
    [
        ("replace_obj", {"objects": ["dog"]}, "couch", "novel_word"),
        ("replace_obj", {"objects": ["dog"]}, "a sofa", "novel_word"),
        ("replace_obj", {"objects": ["dog"]}, "dogs", "not_copy"),
        ("replace_obj", {"objects": ["dog"]}, "puppy", "not_implied"),
        ("replace_obj", {"objects": ["dog"]}, "animal", "not_implied"),
        ("replace_obj", {"objects": ["dog"]}, "green", "subtype"),
        ("replace_att", {"attributes": ["brown"]}, "black cat", "subtype"),
        ("replace_att", {"attributes": ["brown"]}, "Brown.", "not_copy"),
        ("replace_rel", {"relations": ["next to"]}, "beside", "not_implied"),
        ("replace_rel", {"relations": ["next to"]}, "on a table", "subtype"),
        ("add_obj", {"objects": ["dog"]}, "couches", "novel_word"),
        ("add_att", {"objects": ["dog"]}, "cat", "subtype"),
    ],
)
def test_a_proposal_that_cannot_do_is_not_composed(
    rules: ScriptRules, subtype: str, found: Any, new: str, reason: str
) -> None:
    finds = f"find_{'obj' if subtype.startswith('add') else subtype.partition('_')[2]}"
    answers = {finds: [json.dumps(found)], f"{subtype}_propose": [json.dumps({"new": new})]}
    outcome, asked = run(subtype, rules, answers)
    assert outcome == Outcome(None, 3, REASONS[reason], ())
    assert [one.prompt for one in asked] == [finds, *[f"{subtype}_propose"] * 3]


def test_a_malformed_proposal_costs_one_attempt_and_an_edit_asks_for_no_sentence() -> None:
    answers: dict[str, list[str | None]] = {
        "find_obj": ['{"objects": ["dog"]}'],
        "replace_obj_propose": ["Hm."] * TRIES + ['{"new": "a cat"]'],
        "validate_negative": [NO],
    }
    outcome, asked = run("replace_obj", EDIT, answers)
    assert (outcome.text, outcome.attempt) == ("A brown cat next to a couch.", 2)
    assert [one.retry for one in asked] == [0, 0, 1, 2, 0, 0]


@pytest.mark.parametrize(
    "prompt", ["find_obj", "replace_obj_propose", "replace_obj_compose", "validate_negative"]
)
@pytest.mark.parametrize("bad", ["Hm.", '{"a": ' * 20_000, "x" * 10**5, '{"new": "' + "gold " * 10**5])
def test_a_model_that_never_answers_in_the_form_is_asked_a_bounded_number_of_times(
    prompt: str, bad: str
) -> None:
    answers: dict[str, list[str | None]] = {
        "find_obj": ['{"objects": ["dog"]}'],
        "replace_obj_propose": ['{"new": "cat"}'],
        "replace_obj_compose": ['{"sentence": "A brown cat next to a couch."}'],
        "validate_negative": [NO],
    }
    outcome, asked = run("replace_obj", MODEL_COMPOSES, answers | {prompt: [bad]})
    assert (outcome.text, outcome.reason) == (None, MALFORMED)
    assert sum(one.prompt == prompt for one in asked) == 3 * TRIES


def test_a_model_without_a_reply_ends_the_text() -> None:
    answers: dict[str, list[str | None]] = {
        "find_obj": ['{"objects": ["dog"]}'],
        "replace_obj_propose": [None],
    }
    assert run("replace_obj", EDIT, answers)[0] == Outcome(None, 1, NO_REPLY, ())


def test_a_swap_that_fails_is_shown_again_as_the_json_that_was_asked_for() -> None:
    bad = {"possible": "yes", "first": "dog", "second": "bird", "sentence": "A bird."}
    good = {"possible": "yes", "first": "dog", "second": "cat", "sentence": "Whatever."}
    answers: dict[str, list[str | None]] = {
        "swap_obj": [json.dumps(bad), json.dumps(good)],
        "validate_negative": [NO],
    }
    outcome, asked = run("swap_obj", EDIT, answers, "A dog chases a cat.")
    assert (outcome.text, outcome.attempt) == ("A cat chases a dog.", 2)
    (failed,) = asked[1].failed
    assert json.loads(failed.answer) == bad


def test_a_paraphrase_survives_a_malformed_attempt_and_is_shown_as_json() -> None:
    script = write_paraphrase(CAPTION, EDIT)
    asked = [next(script)]
    copy = json.dumps({"idea": "none", "sentence": CAPTION})
    for text in (*["Hm."] * TRIES, copy):
        asked.append(script.send(ModelOutput(text, "stop")))
    assert [one.attempt for one in asked] == [1, 1, 1, 2, 3]
    assert [json.loads(one.answer)["sentence"] for one in asked[-1].failed] == [CAPTION]


@pytest.mark.parametrize(
    ("new", "concept", "trimmed"),
    [
        ("A Cat.", "dog", "cat"),
        ("red dog", "dog", "red"),
        ("twin twin", "dog", "twin"),
        ("TV", "dog", "TV"),
        ("", "x", ""),
    ],
)
def test_a_proposal_loses_its_article_stop_capital_repetition_and_noun(
    new: str, concept: str, trimmed: str
) -> None:
    assert trim_proposal(new, concept) == trimmed


def test_a_real_small_model_behind_a_server_writes_negatives_by_edits(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp's server is not installed: make dev")
    path = find_gguf()
    if path is None:
        pytest.skip("SmolLM2 is not installed: make dev")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_gguf(path, tmp_path / "server.log", slots=4) as url:
        settings = {**MODEL, "target": f"chat:m@{url}", "name": "m", "response_schema": True, "subtypes": 2}
        written = language_negatives(
            pairs_of(["A man riding a horse on the beach."]),
            seed=44,  # draws replace_obj and add_obj
            max_attempts=2,
            parts=("negatives",),
            model=settings
            | {"replies": str(tmp_path), "max_tokens": 64, "examples": 3, "validate_texts": False},
            store=tmp_path / "r.sqlite",
        )
        assert written.replies is not None
        replies = pd.concat(list(written.replies))
    assert len(written.negatives) + len(written.rejects) == 2
    assert len(written.negatives) >= 1
    assert not replies["prompt"].str.contains("compose").any()
    assert all(isinstance(json.loads(text), dict) for text in replies["text"])
