import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.evaluation.scores.choice_parser import parse_choice
from caramel.evaluation.scores.prompt_templates import LETTERS, NONE, Form

CAPTIONS = ("A dog on a mat.", "A cat on a mat.", "On the mat, a dog lies.")
SHIRTS = ("A man in a red shirt.", "A man in a blue shirt.")
FORMS = pytest.mark.parametrize("form", ["true", "odd"])
FORM: st.SearchStrategy[Form] = st.sampled_from(["true", "odd"])
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


@FORMS
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
def test_common_forms_are_understood(reply: str, place: int, form: Form) -> None:
    assert parse_choice(reply, CAPTIONS, form=form, none=True) == place


@FORMS
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
        "The right caption is B",
        "choiced",
        "a. dog",
        "None of them is wrong but B",
    ],
)
def test_what_names_no_single_option_is_not_understood(reply: str, form: Form) -> None:
    assert parse_choice(reply, CAPTIONS, form=form, none=True) is None


@FORMS
def test_a_caption_that_begins_as_another_is_told_from_it(form: Form) -> None:
    longer = ["a dog", "a dog on a mat"]
    assert parse_choice("A) a dog", longer, form=form, none=False) == 0
    assert parse_choice("B) a dog on a mat", longer, form=form, none=False) == 1
    assert parse_choice("A) a dog on a mat", longer, form=form, none=False) is None
    assert parse_choice("B) a dog", longer, form=form, none=False) is None


@FORMS
@pytest.mark.parametrize("reply", ["D", "none", "None of them", "D. none of these captions"])
def test_an_option_that_was_not_offered_is_not_understood(reply: str, form: Form) -> None:
    assert parse_choice(reply, CAPTIONS, form=form, none=False) is None


@given(st.text(alphabet=string.printable + "é–“”", max_size=60), st.integers(1, 3), st.booleans(), FORM)
def test_whatever_is_said_the_place_is_that_of_an_option_whose_letter_or_none_was_said(
    reply: str, count: int, none: bool, form: Form
) -> None:
    place = parse_choice(reply, CAPTIONS[:count], form=form, none=none)
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


@given(captions, st.data(), FORM)
def test_every_option_is_understood_in_every_form(
    options: list[str], data: st.DataObject, form: Form
) -> None:
    place = data.draw(st.integers(0, len(options)))
    text = [*options, NONE][place]
    letter = data.draw(st.sampled_from([LETTERS[place], f"({LETTERS[place]})", f"**{LETTERS[place]}**"]))
    after = data.draw(
        st.sampled_from(["", ".", ")", f") {text}", f". {text.capitalize()}.", f": {text}", f"\n{text}"])
    )
    assert (
        parse_choice(data.draw(st.sampled_from(LEADS)) + letter + after, options, form=form, none=True)
        == place
    )


@given(captions, st.data(), FORM)
def test_two_letters_are_never_understood(options: list[str], data: st.DataObject, form: Form) -> None:
    first, second = data.draw(st.permutations(LETTERS[: len(options) + 1]))[:2]
    between = data.draw(
        st.sampled_from([" ", ", ", " or ", " and ", "/", "\n", ". ", ") ", ": ", ".\n\nNo: "])
    )
    end = data.draw(st.sampled_from(["", ".", ")", " is right", " as well", "!"]))
    lead = data.draw(st.sampled_from(LEADS))
    assert parse_choice(f"{lead}{first}{between}{second}{end}", options, form=form, none=True) is None


@given(captions, st.data(), FORM)
def test_the_letter_of_one_with_the_caption_of_another_is_not_understood(
    options: list[str], data: st.DataObject, form: Form
) -> None:
    place, other = data.draw(st.permutations(range(len(options))))[:2]
    assert parse_choice(f"{LETTERS[place]}) {options[other]}", options, form=form, none=False) is None


@pytest.mark.parametrize(
    (
        "reply",
        "true",
        "odd",
    ),  # the place that is chosen where the true caption is asked for, or the false one
    [
        ("A) is incorrect: the shirt is blue.", None, 0),
        ("A. A man in a red shirt. This is incorrect: the shirt in the image is blue.", None, 0),
        ("A. Incorrect", None, 0),
        ("A: wrong, the shirt is blue", None, 0),
        ("A) A man in a red shirt: false", None, 0),
        ("A. It does not match the image.", None, 0),
        ("A doesn\u2019t fit.", None, 0),
        ("A. This is true of the image.", 0, None),
        ("A. A man in a red shirt. This is true of the image.", 0, None),
        ("A is true. B is false.", 0, 1),
        ("A: false. B: true", 1, 0),
        ("- A: false\n- B: true", 1, 0),
        ("**A** is false, **B** is true", 1, 0),
        ("A is false but B matches", 1, 0),
        ("A. A man in a red shirt. False. B. A man in a blue shirt. True.", 1, 0),
        ("A is wrong, B", 1, None),  # asked for the wrong one, it names both
        ("B, because A does not match the image", 1, None),
        ("The answer is B because A is wrong.", 1, None),
        ("A is incorrect. The correct option is B.", 1, 1),
        ("Caption B is correct.", 1, None),  # true of the image, or the answer?
        ("Option A is the correct answer", 0, None),
        ("A is the wrong answer", None, None),
        ("A) No. B) Yes.", None, None),
        ("A. No, the shirt is blue.", None, None),
        ("A. No dog can be seen.", 0, 0),
        ("A is correct. Answer: A", 0, 0),
        ("A is false. Answer: A", None, 0),
        ("A is true. Answer: A", 0, None),
        ("not A", None, None),  # that leaves B, but names nothing
        ("Not A, B", 1, 1),
        ("It is not A. The answer is B.", 1, 1),
        ("Both", None, None),
        ("Both are correct", None, None),
        ("Both A and B are correct.", None, None),
        ("A. Both fit", None, None),
        ("Neither", None, None),
        ("Neither A nor B", None, None),
        ("None of them is true", None, None),
        ("Yes", None, None),
        ("No", None, None),
        ("'A'", 0, 0),
        ("\u201cB\u201d", 1, 1),
        ('"B"', 1, 1),
        ("\\boxed{B}", 1, 1),
        ("The shirt is blue. \\boxed{\\text{B}}", 1, 1),
        ("<answer>A</answer>", 0, 0),
        ('{"answer": "B"}', 1, 1),
        ("<think>A? No, B is right.</think>A", 0, 0),
        ("<think>The shirt may be", None, None),
        ("The shirt is red, so the answer is A.", 0, 0),
        ("The man wears red.\n\nAnswer: **A**", 0, 0),
        ("A says red, B says blue. The shirt is red. Final answer: A", 0, 0),
        ("Answer: A\nAnswer: B", None, None),
        ("The answer is A. Wait. The answer is B.", None, None),
        ("A man", None, None),
        ("A red shirt is B", None, None),
    ],
)
def test_a_verdict_on_an_option_is_not_its_choice(reply: str, true: int | None, odd: int | None) -> None:
    assert parse_choice(reply, SHIRTS, form="true", none=False) == true
    assert parse_choice(reply, SHIRTS, form="odd", none=False) == odd


def test_verdicts_on_three_options_choose_the_one_that_stands_out() -> None:
    reply = "A: false\nB: true\nC: true"
    assert parse_choice(reply, CAPTIONS, form="odd", none=True) == 0
    assert parse_choice(reply, CAPTIONS, form="true", none=True) is None


@pytest.mark.parametrize(
    "reply", ["A. a a. This is incorrect", "A) a a: this is wrong.", "A\na a. It is false"]
)
def test_a_letter_that_is_also_a_word_of_its_caption_is_the_subject_of_the_verdict(reply: str) -> None:
    assert parse_choice(reply, ["a a", "a the"], form="true", none=False) is None
    assert parse_choice(reply, ["a a", "a the"], form="odd", none=False) == 0


@given(captions, st.data(), FORM)
def test_an_option_that_is_only_rejected_is_never_chosen(
    options: list[str], data: st.DataObject, form: Form
) -> None:
    place = data.draw(st.integers(0, len(options) - 1))
    verdicts = {
        "true": ["incorrect", "false", "wrong", "not true", "not correct", "inaccurate"],
        "odd": ["true", "accurate", "not false"],
    }
    echo = data.draw(
        st.sampled_from(["", f". {options[place]}. This", f") {options[place].capitalize()}. It"])
    )
    verdict = data.draw(st.sampled_from(verdicts[form]))
    reply = f"{LETTERS[place]}{echo} is {verdict}{data.draw(st.sampled_from(['', '.', ': it rains.', ', since it rains']))}"
    assert parse_choice(reply, options, form=form, none=False) is None


@given(captions, st.data(), FORM)
def test_an_answer_behind_reasoning_is_understood(
    options: list[str], data: st.DataObject, form: Form
) -> None:
    place = data.draw(st.integers(0, len(options) - 1))
    reason = data.draw(
        st.sampled_from(["It rains.", "Let us see.\n\nIt rains.", "<think>B. No, A.</think>It rains."])
    )
    lead = data.draw(
        st.sampled_from(["Answer: ", "The answer is ", "Final answer: **", "So the correct option is "])
    )
    assert parse_choice(f"{reason} {lead}{LETTERS[place]}", options, form=form, none=False) == place
