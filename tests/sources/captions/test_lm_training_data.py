"""What is taught is right: it keeps the prompts' forms, passes the checks of texts, and is what the world's reading says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from caramel.sources.captions.error_rates import CHANGED
from caramel.sources.captions.llm.changes import Change
from caramel.sources.captions.llm.checks import Bounds, evaluate_negative
from caramel.sources.captions.llm.response_parser import parse_answer
from caramel.sources.captions.lm_training_data import (
    TrainingExample,
    find_words,
    fix_articles,
    sample_example,
)
from caramel.sources.captions.prompts.prompt_files import (
    OF_GRAPHS,
    format_answer,
    list_learned_prompts,
    load_prompt,
)
from caramel.sources.world.grammar import parse_caption

BOUNDS = Bounds(2.0, 0.999, 1, 0.3, 0.5, 0.5)


@pytest.fixture(scope="module")
def lessons() -> list[TrainingExample]:
    rng = np.random.default_rng(0)
    return [sample_example(rng) for _ in range(1500)]


def test_every_prompt_is_taught_and_answers_have_its_form(lessons: list[TrainingExample]) -> None:
    assert set(Counter(one.prompt for one in lessons)) == set(list_learned_prompts()) - {OF_GRAPHS}
    for one in lessons:
        asked = load_prompt(one.prompt)
        assert list(one.given) == asked.given
        assert parse_answer(format_answer(one.answer), asked.answer) == one.answer


def test_what_is_composed_or_swapped_is_of_its_subtype_where_it_is_a_sentence_of_the_world(
    lessons: list[TrainingExample],
) -> None:
    seen: Counter[str] = Counter()
    for one in lessons:
        subtype = one.prompt.removesuffix("_compose")
        if subtype in CHANGED and one.answer.get("possible") != "no":
            said, now = parse_caption(one.given["sentence"]), parse_caption(str(one.answer["sentence"]))
            assert said is not None
            if now is not None:
                seen[subtype] += 1
                assert CHANGED[subtype](said, now), one
    assert set(seen) == set(CHANGED)


def test_what_is_composed_passes_the_checks(lessons: list[TrainingExample]) -> None:
    refused: Counter[str] = Counter()
    composed = [one for one in lessons if one.prompt.endswith("_compose")]
    for one in composed:
        given, subtype = one.given, one.prompt.removesuffix("_compose")
        old = next(given[name] for name in ("object", "attribute", "relation") if name in given)
        change = Change(subtype, old, given["new"])
        verdict = evaluate_negative(
            given["sentence"], str(one.answer["sentence"]), change, frozenset(), BOUNDS
        )
        refused[
            verdict.find_failed_check(
                ("statement", "complete", "single_sentence", "not_copy", "edit_location")
            )
            or ""
        ] += 1
    assert refused[""] == len(composed)


def test_a_paraphrase_says_the_same_and_a_validator_knows_what_does(lessons: list[TrainingExample]) -> None:
    def meaning(text: str) -> object:
        said = parse_caption(text)
        assert said is not None
        return said.whole.canonicalise(), said.alone

    for one in lessons:
        if one.prompt == "paraphrase":
            assert meaning(str(one.answer["sentence"])) == meaning(one.given["sentence"])
        elif one.prompt == "validate_paraphrase":
            same = meaning(one.given["first"]) == meaning(one.given["second"])
            assert (one.answer["same"] == "yes") == same == (one.answer["problem"] == "none")
        elif one.prompt == "validate_negative":
            follows = meaning(one.given["caption"]) == meaning(one.given["changed"])
            assert (one.answer["follows"] == "yes") == follows


def test_words_are_found_in_their_order_and_articles_follow_the_letter() -> None:
    caption = "An orange car that has a small box to its left, and above the box is a cup."
    assert find_words(caption, "obj") == ["car", "box", "cup"]
    assert find_words(caption, "att") == ["orange", "small"]
    assert find_words(caption, "rel") == ["to its left", "above"]
    assert find_words("A car on the left and a box at the top.", "rel") == ["on the left", "at the top"]
    assert fix_articles("A orange car and an red box.") == "An orange car and a red box."


def test_captions_with_positions_are_taught_by_every_prompt(lessons: list[TrainingExample]) -> None:
    texts = [(one.prompt, next(iter(one.given.values()))) for one in lessons]
    placed = {
        prompt
        for prompt, text in texts
        if (said := parse_caption(text)) and said.meaning.mentions[0].position
    }
    assert placed == {prompt for prompt, _ in texts}
