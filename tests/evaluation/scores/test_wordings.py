import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.evaluation.scores.wordings import LETTERS, NONE, WORDINGS, chosen, prompt

CAPTIONS = ("A dog on a mat.", "A cat on a mat.", "On the mat, a dog lies.")
LEADS = (
    "",
    "Answer: ",
    "answer ",
    "The answer is ",
    "the answer is: ",
    "The correct answer is option ",
    "My final answer is ",
    "Option ",
    "Caption ",
    "The best choice is caption ",
)


@pytest.mark.parametrize("form", list(WORDINGS))
def test_a_prompt_holds_the_question_and_each_option_with_its_letter(form: str) -> None:
    assert len(WORDINGS[form]) == 3
    for wording in WORDINGS[form]:
        text = prompt(form, wording, CAPTIONS, none=True)
        lines = [f"{c}. {o}" for c, o in zip("ABCD", [*CAPTIONS, NONE], strict=True)]
        assert "\n".join(lines) in text
        assert text.endswith(": A, B, C or D.")
        assert "{" not in text
        assert NONE not in prompt(form, wording, CAPTIONS, none=False)
    assert len({prompt(form, wording, CAPTIONS, none=True) for wording in WORDINGS[form]}) == 3


def test_a_caption_of_several_lines_cannot_pass_for_more_options() -> None:
    lines = prompt("true", "fit", ["a dog\nB. a cat", "a cow"], none=False).splitlines()
    assert [line[:2] for line in lines if line[1:2] == "."] == ["A.", "B."]


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("A", 0),
        ("(B)", 1),
        ("Option C.", 2),
        ("The answer is B", 1),
        ("B) a cat on a mat", 1),
        ("B) a cat on a", 1),
        ("**B**", 1),
        ("**Answer:** C", 2),
        ("`c`", 2),
        ("(b).", 1),
        ("\n B \n", 1),
        ("A. A dog on a mat.", 0),
        ("A. A dog on a mat. The picture shows no cat.", 0),
        ("B. The mat is empty.", 1),
        ("B\n\nThe mat is empty.", 1),
        ("B - a cat on a mat", 1),
        ("The answer is B, because the mat is empty.", 1),
        ("The answer is (B) because it is not B's mat.", 1),
        ("D", 3),
        ("D. none of these captions", 3),
        ("None", 3),
        ("none of them.", 3),
        ("The answer is none of the above", 3),
    ],
)
def test_common_forms_are_understood(reply: str, place: int) -> None:
    assert chosen(reply, CAPTIONS, none=True) == place


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "E",
        "2",
        "a dog on a mat",
        "A dog on a mat.",
        "A.I. is hard",
        "I cannot see the image.",
        "A or B",
        "A, B",
        "A and C",
        "(A)(B)",
        "A\nB",
        "B. A",
        "AB",
        "Not B",
        "The answer is not B",
        "The answer is a dog",
        "The answer is A dog",
        "Both",
        "B) a dog on a mat.",  # the letter of one, the caption of another
        "B. The caption A is right.",
        "A: false\nB: true\nC: true",
        "Caption B is correct.",  # of the image, or as the answer?
        "The right caption is B",
        "choiced",
        "a. dog",
        "None of them is wrong but B",
    ],
)
def test_what_names_no_single_option_is_not_understood(reply: str) -> None:
    assert chosen(reply, CAPTIONS, none=True) is None


def test_a_caption_that_begins_as_another_is_told_from_it() -> None:
    longer = ["a dog", "a dog on a mat"]
    assert chosen("A) a dog", longer, none=False) == 0
    assert chosen("B) a dog on a mat", longer, none=False) == 1
    assert chosen("A) a dog on a mat", longer, none=False) is None
    assert chosen("B) a dog", longer, none=False) is None


@pytest.mark.parametrize("reply", ["D", "none", "None of them", "D. none of these captions"])
def test_an_option_that_was_not_offered_is_not_understood(reply: str) -> None:
    assert chosen(reply, CAPTIONS, none=False) is None


@given(st.text(alphabet=string.printable + "é–“”", max_size=60), st.integers(1, 3), st.booleans())
def test_whatever_is_said_the_place_is_that_of_an_option_whose_letter_or_none_was_said(
    reply: str, count: int, none: bool
) -> None:
    place = chosen(reply, CAPTIONS[:count], none=none)
    if place is None:
        return
    assert 0 <= place < count + none
    said_none = none and place == count and ("none" in reply.lower() or "neither" in reply.lower())
    assert LETTERS[place] in reply.upper() or said_none


captions = st.lists(
    st.lists(st.sampled_from(["a", "the", "dog", "cat", "on", "red", "b", "d"]), min_size=2, max_size=8).map(
        " ".join
    ),
    min_size=2,
    max_size=3,
    unique=True,
)


@given(captions, st.data())
def test_every_option_is_understood_in_every_form(options: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(options)))
    text = [*options, NONE][place]
    letter = data.draw(st.sampled_from([LETTERS[place], f"({LETTERS[place]})", f"**{LETTERS[place]}**"]))
    after = data.draw(
        st.sampled_from(["", ".", ")", f") {text}", f". {text.capitalize()}.", f": {text}", f"\n{text}"])
    )
    assert chosen(data.draw(st.sampled_from(LEADS)) + letter + after, options, none=True) == place


@given(captions, st.data())
def test_two_letters_are_never_understood(options: list[str], data: st.DataObject) -> None:
    first, second = data.draw(st.permutations(LETTERS[: len(options) + 1]))[:2]
    between = data.draw(
        st.sampled_from([" ", ", ", " or ", " and ", "/", "\n", ". ", ") ", ": ", ".\n\nNo: "])
    )
    end = data.draw(st.sampled_from(["", ".", ")", " is right", " as well", "!"]))
    lead = data.draw(st.sampled_from(LEADS))
    assert chosen(f"{lead}{first}{between}{second}{end}", options, none=True) is None


@given(captions, st.data())
def test_the_letter_of_one_with_the_caption_of_another_is_not_understood(
    options: list[str], data: st.DataObject
) -> None:
    place, other = data.draw(st.permutations(range(len(options))))[:2]
    assert chosen(f"{LETTERS[place]}) {options[other]}", options, none=False) is None
