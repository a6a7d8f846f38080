"""A model chooses among changes whose texts pass every check."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from scripted_model import play_script

from caramel.sources.captions.llm.caption_editor import CaptionEditor
from caramel.sources.captions.llm.changes import Change, normalise_words
from caramel.sources.captions.llm.checks import REASONS, Bounds
from caramel.sources.captions.llm.choices import NO_CHOICE, NO_OPTION, NOT_SHOWN
from caramel.sources.captions.llm.conversation import MALFORMED, TRIES, Outcome, PromptInput, ScriptRules
from caramel.sources.captions.llm.scheduler import RequestSettings, Sampling, build_request
from caramel.sources.captions.llm.workflows import write_negative
from caramel.sources.captions.prompts.prompt_files import MAX_CHOICES, load_prompt

CAPTION = "A brown dog next to a couch."
ANIMALS = [
    "cat",
    "horse",
    "cow",
    "sheep",
    "bear",
    "zebra",
    "giraffe",
    "elephant",
    "goat",
    "rabbit",
    "lion",
    "monkey",
]


@dataclass(frozen=True)
class Lister:
    places: tuple[tuple[Change, ...], ...]

    def list_changes(self, caption: str, subtype: str) -> list[list[Change]]:
        return [[change for change in place if change.subtype == subtype] for place in self.places]


def replacements(old: str, *new: str) -> tuple[Change, ...]:
    return tuple(Change("replace_obj", old, word) for word in new)


def run(
    answers: list[str],
    *places: tuple[Change, ...],
    subtype: str = "replace_obj",
    seed: int = 0,
    validate: bool = False,
) -> tuple[Outcome, list[PromptInput]]:
    """Run a script on these answers, in turn and then the last; return also what was asked."""
    bounds = Bounds(2.0, 0.999, 1, 0.3, 0.5, 0.5)
    rules = ScriptRules(
        3, tuple(REASONS), bounds, validate=validate, editor=CaptionEditor(None), change_lister=Lister(places)
    )
    said = frozenset(normalise_words(CAPTION))
    script = write_negative(
        CAPTION, subtype, said, lambda attempt: np.random.default_rng([seed, attempt]), rules
    )
    return play_script(script, lambda asked: answers[min(len(asked), len(answers)) - 1])


def options(prompt_input: PromptInput) -> list[str]:
    return [option.partition(". ")[2] for option in prompt_input.given["options"].split("  ")]


@pytest.mark.parametrize("answer", ['{"choice": "2"}', '{"choice": 2}', "choice: 2", '{"choice": "2. dog"}'])
def test_the_chosen_change_is_applied(answer: str) -> None:
    outcome, asked = run([answer], replacements("dog", "cat", "horse"))
    second = options(asked[0])[1].removeprefix("dog -> ")
    assert outcome.text == f"A brown {second} next to a couch."
    assert [one.prompt for one in asked] == ["choose_change"]
    assert asked[0].temperature == 0.0


def test_only_changes_that_pass_the_checks_are_options_each_once() -> None:
    places = (
        replacements("dog", "puppy", "animal", "couch", "green", "cat", "cat"),
        replacements("table", "bed"),
    )
    _, asked = run(['{"choice": "1"}'], places[0], places[1])
    assert options(asked[0]) == ["dog -> cat"]


def test_places_take_turns_and_the_number_is_bounded() -> None:
    _, asked = run(['{"choice": "1"}'], replacements("dog", *ANIMALS), replacements("couch", "bench"))
    assert len(options(asked[0])) == MAX_CHOICES
    assert "couch -> bench" in options(asked[0])


def test_the_order_depends_on_the_seed_and_the_attempt_alone() -> None:
    first, again, other = (
        [options(one) for one in run(['{"choice": "0"}'], replacements("dog", *ANIMALS), seed=seed)[1]]
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert first[0] != first[1]


@pytest.mark.parametrize(
    ("answer", "reason"), [('{"choice": "0"}', NO_CHOICE), ('{"choice": "9"}', NOT_SHOWN)]
)
def test_none_and_a_number_without_an_option_cost_an_attempt_and_write_nothing(
    answer: str, reason: str
) -> None:
    outcome, asked = run([answer], replacements("dog", "cat"))
    assert outcome == Outcome(None, 3, reason, ())
    assert len(asked) == 3


@pytest.mark.parametrize("answer", ["dog", '{"choice": true}', '{"choice": "the first"}', '{"choice": 1e9}'])
def test_an_answer_without_a_number_is_malformed(answer: str) -> None:
    outcome, asked = run([answer], replacements("dog", "cat"))
    assert outcome.reason == MALFORMED
    assert len(asked) == 3 * TRIES


def test_a_caption_that_allows_no_change_asks_nothing() -> None:
    assert run([""], replacements("dog", "puppy")) == (Outcome(None, 1, NO_OPTION, ()), [])
    assert run([""]) == (Outcome(None, 1, NO_OPTION, ()), [])


def test_a_change_that_the_validator_refuses_is_no_option_again() -> None:
    answers = ['{"choice": "1"}', '{"follows": "yes"}'] * 3
    outcome, asked = run(answers, replacements("dog", "cat", "horse"), validate=True)
    chosen = [options(one) for one in asked if one.prompt == "choose_change"]
    assert [len(one) for one in chosen] == [2, 1]
    assert (outcome.text, outcome.reason, len(outcome.drafts)) == (None, REASONS["meaning"], 2)


@pytest.mark.parametrize(
    ("change", "shown", "text"),
    [
        (Change("add_att", "couch", "purple"), "couch + purple", "A brown dog next to a purple couch."),
        (Change("add_obj", "dog", "cat"), "dog + cat", "A brown dog with a cat next to a couch."),
        (Change("replace_att", "brown", "white"), "brown -> white", "A white dog next to a couch."),
    ],
)
def test_every_subtype_is_chosen_in_the_same_way(change: Change, shown: str, text: str) -> None:
    outcome, asked = run(['{"choice": "1"}'], (change,), subtype=change.subtype)
    assert (options(asked[0]), outcome.text) == ([shown], text)


def test_a_swap_that_says_the_same_is_no_option() -> None:
    change = Change("swap_obj", "brown dog", "couch")  # the dog alone would leave "brown" to the couch
    assert run([""], (change,), subtype="swap_obj")[0].reason == NO_OPTION


def test_the_schema_allows_the_numbers_of_options_and_none() -> None:
    assert '"0", "1"' in load_prompt("choose_change").format_schema_text()
    assert f'"{MAX_CHOICES}"]' in load_prompt("choose_change").format_schema_text()


def test_the_schema_of_a_request_allows_the_options_that_it_shows() -> None:
    _, asked = run(['{"choice": "1"}'], replacements("dog", "cat", "horse"))
    settings = RequestSettings("m", 1, 0, 24, True, 1, Sampling(1.0, 1.0, 0.0))
    schema = json.loads(str(build_request(asked[0], settings)[1].schema))
    assert schema["properties"]["choice"]["enum"] == ["0", "1", "2"]
