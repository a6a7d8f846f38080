from __future__ import annotations

import pytest

from caramel.sources.captions.lexical_entailment import BY_LISTS
from caramel.sources.captions.llm.changes import Change, is_still_true
from caramel.sources.captions.llm.checks import (
    REASONS,
    Bounds,
    Verdict,
    evaluate_negative,
    evaluate_paraphrase,
)
from caramel.sources.captions.llm.proposals import find_change_problem

BOUNDS = Bounds(
    max_length_ratio=2.0,
    max_similarity=0.999,
    max_extra_edits=1,
    min_overlap=0.3,
    entailment_threshold=0.5,
    grammar_threshold=0.5,
)
CAPTION = "A white cat sits in front of an old red car."
SAID = frozenset(["a", "white", "cat", "sits", "in", "front", "of", "an", "old", "red", "car", "tail"])
OBJECT = Change("replace_obj", "cat", "dog")
SWAP = Change("swap_obj", "cat", "car")


def negative(text: str, change: Change) -> Verdict:
    return evaluate_negative(CAPTION, text, change, SAID, BOUNDS)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (OBJECT, "A white dog sits in front of an old red car."),
        (Change("replace_obj", "cat", "ice bear"), "A white ice bear sits in front of an old red car"),
        (Change("replace_att", "white", "orange"), "An orange cat sits in front of an old red car."),
        (Change("replace_att", "old", "new"), "A white cat sits in front of a new red car."),
        (Change("replace_rel", "in front of", "far behind"), "A white cat sits far behind an old red car."),
        (SWAP, "A white car sits in front of an old red cat."),
        (Change("swap_att", "white", "old"), "An old cat sits in front of a white red car."),
        (Change("add_obj", "cat", "drum"), "A white cat and a drum sits in front of an old red car."),
        (Change("add_obj", "car", "drum"), "A white cat sits in front of an old red car and next to a drum."),
        (Change("add_att", "cat", "golden"), "A white golden cat sits in front of an old red car."),
        (Change("add_att", "car", "golden"), "A white cat sits in front of a golden old red car."),
    ],
)
def test_one_change_as_asked_passes_every_check(change: Change, text: str) -> None:
    assert negative(text, change).find_failed_check(tuple(REASONS)) is None


@pytest.mark.parametrize(
    ("change", "text", "wrong"),
    [
        (OBJECT, "Is a white dog in front of an old red car?", "statement"),
        (OBJECT, "A white dog sits in front of an", "complete"),
        (OBJECT, "Dog", "complete"),
        (OBJECT, "A white dog sits in front of an old red car,", "complete"),
        (OBJECT, "A white dog sits in front of an old red car.\nI changed cat to dog.", "single_sentence"),
        (OBJECT, "A white dog sits in front of an old red car" + " and a wall" * 9, "single_sentence"),
        (OBJECT, "a white cat sits in front of the old red car", "not_copy"),
        (OBJECT, "A white dog sits in front of an old blue car.", "one_change"),
        (OBJECT, "A white cat sits in front of an old red dog.", "edit_location"),
        (OBJECT, "A white cow sits in front of an old red car.", "edit_location"),
        (SWAP, "An old red car sits in front of a white cat and a dog.", "one_change"),
        (SWAP, "An old red car sits in front of a white cat.", "edit_location"),
        (Change("swap_obj", "cat", "cat"), "A white car sits in front of an old red cat.", "edit_location"),
        (Change("swap_obj", "cat", "tree"), "A white car sits in front of an old red cat.", "edit_location"),
        (Change("add_obj", "cat", "drum"), "A black drum sits in front of an old red car.", "one_change"),
        (
            Change("add_att", "cat", "golden"),
            "A white cat sits in front of an old red golden car.",
            "edit_location",
        ),
        (
            Change("add_obj", "cat", "drum"),
            "A white cat sits in front of an old red car and a bell.",
            "edit_location",
        ),
        (Change("replace_obj", "white", "black"), "A black cat sits in front of an old red car.", "subtype"),
        (Change("replace_att", "cat", "dog"), "A white dog sits in front of an old red car.", "subtype"),
        (Change("replace_rel", "cat", "dog"), "A white dog sits in front of an old red car.", "subtype"),
        (Change("replace_obj", "cat", "tail"), "A white tail sits in front of an old red car.", "novel_word"),
    ],
)
def test_what_is_not_as_asked_is_told_by_its_check(change: Change, text: str, wrong: str) -> None:
    assert getattr(negative(text, change), wrong) is False


@pytest.mark.parametrize("text", ["A dog by a cat and a cup by a cat.", "A cat by a cat and a cup by a dog."])
def test_a_swap_may_take_any_of_the_places_where_a_word_stands_twice(text: str) -> None:
    caption, said = "A cat by a dog and a cup by a cat.", frozenset(["cat", "dog", "cup"])
    found = evaluate_negative(caption, text, Change("swap_obj", "cat", "dog"), said, BOUNDS)
    assert found.edit_location is True
    wrong = evaluate_negative(
        caption, "A cat by a cup and a dog by a cat.", Change("swap_obj", "cat", "dog"), said, BOUNDS
    )
    assert wrong.edit_location is False


def test_an_object_that_is_named_far_from_what_it_stands_beside_is_no_verdict() -> None:
    change = Change("add_obj", "cat", "drum")
    assert negative("A white cat sits in front of an old red car with a drum.", change).edit_location is None


def test_what_no_list_knows_is_no_verdict_and_does_not_reject() -> None:
    verdict = evaluate_negative(
        "A zyx near a qwv.", "A plugh near a qwv.", Change("replace_obj", "zyx", "plugh"), frozenset(), BOUNDS
    )
    assert verdict.subtype is None
    assert verdict.find_failed_check(tuple(REASONS)) is None


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("An old red car stands behind a sitting white cat.", None),
        ("a white cat  sits in front of an old red car", "not_copy"),
        ("There is a building beneath the stars.", "overlap"),
        ("Is there a white cat before an old red car?", "statement"),
        (
            "An old red car is behind a white cat. This paraphrase turns the relation."
            + " It does so well." * 9,
            "single_sentence",
        ),
    ],
)
def test_paraphrases_are_told_by_their_checks(text: str, wrong: str | None) -> None:
    assert evaluate_paraphrase(CAPTION, text, BOUNDS).find_failed_check(tuple(REASONS)) == wrong


@pytest.mark.parametrize("caption", ["Dog", "🙂", "Ένας σκύλος τρέχει.", "word " * 500, ""])
@pytest.mark.parametrize("change", [OBJECT, SWAP, Change("add_att", "", ""), Change("replace_rel", "", "🙂")])
def test_any_caption_has_verdicts(caption: str, change: Change) -> None:
    for text in (caption, "", "🙂", "Ένας γάτος τρέχει.", "a " * 500):
        assert isinstance(evaluate_negative(caption, text, change, frozenset(), BOUNDS), Verdict)
        assert isinstance(evaluate_paraphrase(caption, text, BOUNDS), Verdict)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (Change("replace_obj", "cat", "animal"), "A white animal sits in front of an old red car."),
        (Change("replace_obj", "car", "cars"), "A white cat sits in front of an old red cars."),
        (Change("replace_att", "old", "the old"), "A white cat sits in front of an the old red car."),
        (Change("replace_rel", "sits in front of", "near"), "A white cat near an old red car."),
    ],
)
def test_a_negative_that_is_still_true_is_refused_for_that_reason(change: Change, text: str) -> None:
    assert negative(text, change).not_implied is False
    assert find_change_problem(CAPTION, change, SAID, ("not_implied",)) == REASONS["not_implied"]


def test_an_added_attribute_that_a_caption_says_in_another_word_is_still_true() -> None:
    change = Change("add_att", "cat", "big")
    text = "A big white cat sits in front of an old red car."
    assert evaluate_negative(CAPTION, text, change, SAID | {"large"}, BOUNDS).not_implied is False
    assert evaluate_negative(CAPTION, text, change, SAID, BOUNDS).not_implied


@pytest.mark.parametrize(
    ("caption", "change", "still_true"),
    [
        ("A cat and a dog on a bed.", Change("swap_obj", "cat", "dog"), True),
        ("A cat next to a dog.", Change("swap_obj", "dog", "cat"), True),
        ("A red cat next to a dog.", Change("swap_obj", "cat", "dog"), False),
        ("A cat chases a dog.", Change("swap_obj", "cat", "dog"), False),
        ("A black and white cat.", Change("swap_att", "black", "white"), True),
        ("A black cat and a white dog.", Change("swap_att", "black", "white"), False),
        ("A couch behind a sofa.", Change("swap_obj", "couch", "sofa"), True),
        ("A cat near a man with a hat.", Change("swap_obj", "cat", "man"), False),
        ("A man with a woman wearing a hat.", Change("swap_obj", "woman", "man"), False),
        ("A cat beside a dog holding a ball.", Change("swap_obj", "cat", "dog"), False),
        ("A cat near a man who sits.", Change("swap_obj", "cat", "man"), False),
        ("A cat near a man in a room.", Change("swap_obj", "cat", "man"), True),
        ("A cat near a man and a hat.", Change("swap_obj", "cat", "man"), True),
        ("A cat near a man in the background.", Change("swap_obj", "cat", "man"), False),
        ("A man and a woman with hats.", Change("swap_obj", "man", "woman"), True),
        ("A man and a woman holding hands.", Change("swap_obj", "man", "woman"), True),
        ("A cat and a dog with trees in the background.", Change("swap_obj", "cat", "dog"), True),
        ("A man near a woman in a short blue skirt.", Change("swap_obj", "man", "woman"), False),
    ],
)
def test_an_exchange_around_a_symmetric_relation_is_still_true_if_both_or_neither_are_described(
    caption: str, change: Change, still_true: bool
) -> None:
    assert is_still_true(caption, change, frozenset(), BY_LISTS) == still_true


@pytest.mark.parametrize(
    ("caption", "first", "second", "still_true"),
    [
        ("A man standing next to a woman.", "man", "woman", True),
        ("A man is next to a woman.", "man", "woman", True),
        ("Two cats are sitting beside two dogs.", "cats", "dogs", True),
        ("A car parked next to a truck.", "car", "truck", True),
        ("A man walking with a dog.", "man", "dog", True),
        ("A man standing near a woman holding a cup.", "man", "woman", False),
        ("A man walking behind a woman.", "man", "woman", False),
        ("A man walking to a woman.", "man", "woman", False),
        ("A man walking by a woman.", "man", "woman", False),
        ("A man stands while a woman sits.", "man", "woman", False),
        ("A man sitting and a woman.", "man", "woman", False),
    ],
)
def test_an_exchange_around_a_symmetric_relation_with_a_posture_is_still_true(
    caption: str, first: str, second: str, still_true: bool
) -> None:
    change = Change("swap_obj", first, second)
    assert is_still_true(caption, change, frozenset(), BY_LISTS) == still_true
