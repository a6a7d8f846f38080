from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.sources.captions.llm.response_parser import parse_answer
from caramel.sources.captions.prompts.prompt_files import FieldType
from caramel.utils.text import strip_reasoning

SENTENCE = {"sentence": "text"}
GOOD = {"sentence": "A red dog."}


@pytest.mark.parametrize(
    "text",
    [
        '{"sentence": "A red dog."}',
        'Sure! Here it is:\n```json\n{"sentence": "A red dog."}\n```\nI hope that helps.',
        "{'sentence': 'A red dog.'}",
        '{"Sentence ": "  A red\\n dog. "}',
        '{"note": {"x": 1}, "sentence": "A red dog."}',
        '{"other": 1} {"sentence": "A red dog."}',
        "Sentence: A red dog.",
        '- **sentence**: "A red dog."',
        '<think>Maybe {"sentence": "A cat."}?</think>\n{"sentence": "A red dog."}',
        'It opened before. </think> {"sentence": "A red dog."}',
        '{"sentence": "\\"A red dog.\\""}',
        '{{"sentence": "A red dog."}}',
    ],
)
def test_an_answer_is_found_in_many_forms(text: str) -> None:
    assert parse_answer(text, SENTENCE) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A red dog.",
        '{"sentence": ["A red dog."]}',
        '{"sentence": null}',
        '{"sentence": "A red',
        '<think>{"sentence": "A red dog."}',
        "<html><body>502 Bad Gateway</body></html>",
        "I cannot help with that.",
        f"{{{'9' * 400}+1j}}",
        f"{{0x{'f' * 4000}: 1}}",
        "{1: {(): 2}, None: 3}",
        "[" * 100_000,
        "{" * 100_000,
        '{"a":' * 5000,
    ],
)
def test_what_holds_no_whole_answer_is_none(text: str) -> None:
    assert parse_answer(text, SENTENCE) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"sentence": "A red dog."]',
        '{"sentence": "A red dog."',
        '{"sentence": "A red dog.",}',
        '{"sentence": "A red dog.", "list": ["a", "b",]}',
        '```json\n{"sentence": "A red dog."]\n```',
        '{"list": ["a", "b"}, "sentence": "A red dog."}',
        '{"sentence": "A red dog."}]}}',
        'Here: {"note": {"x": [1, 2]}, "sentence": "A red dog."',
    ],
)
def test_the_commonest_slips_in_brackets_and_commas_are_repaired(text: str) -> None:
    assert parse_answer(text, SENTENCE) == GOOD


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"sentence": "A red', SENTENCE),
        ('{\n  "sentence": "A red', SENTENCE),
        ('{"sentence": "A red dog.\\"', SENTENCE),
        ('{"sentence": "A sign says "stop"."}', SENTENCE),
        ('{"objects": ["dog", "cat"', {"objects": "list"}),
        ('{"objects": ["dog", ', {"objects": "list"}),
        ('{\n  "objects": ["dog", "ca', {"objects": "list"}),
        ('{"new": ]', {"new": "phrase"}),
        ('{"new": [["gold"]', {"new": "phrase"}),
        (f'{{"new": "{"very " * 20}old"}}', {"new": "phrase"}),
    ],
)
def test_what_broke_off_or_is_something_else_is_not_repaired(text: str, fields: dict[str, FieldType]) -> None:
    assert parse_answer(text, fields) is None


@pytest.mark.parametrize(
    "text", ['{"a": {' * 20_000, '{"a": ["b", ' * 20_000, '{"sentence": "' + "a" * 10**5]
)
def test_endless_answers_are_refused_at_once(text: str) -> None:
    begun = time.monotonic()
    assert parse_answer(text, SENTENCE) is None
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('["dog", " cat ", "dog"]', ["dog", "cat"]),
        ('"dog, cat"', ["dog", "cat"]),
        ("[]", []),
        ('""', []),
        ('["dog", 7]', None),
        ("7", None),
    ],
)
def test_lists_may_be_written_with_commas_and_hold_texts_alone(value: str, found: list[str] | None) -> None:
    assert parse_answer(f'{{"objects": {value}}}', {"objects": "list"}) == (
        found if found is None else {"objects": found}
    )


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('"Yes."', "yes"),
        ("true", "yes"),
        ('"No, since …"', "no"),
        ('"maybe"', None),
        ('"yes or no"', None),
        ('"Yes/No"', None),
        ('"no | yes"', None),
        ('"true and false"', None),
        ('"Yes, or nearly so"', "yes"),
    ],
)
def test_yes_and_no_are_told(value: str, found: str | None) -> None:
    answer = parse_answer(f'{{"same": {value}}}', {"same": "yes_no"})
    assert answer == (found and {"same": found})


def test_signs_that_no_table_can_hold_are_no_part_of_an_answer() -> None:
    assert parse_answer('{"sentence": "A \\ud83d red\\u0000 dog."}', SENTENCE) == GOOD


def test_a_thought_is_left_out_of_a_reply() -> None:
    assert strip_reasoning("<THINK>a</THINK> b <think>c") == "b"


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    found = parse_answer(text, SENTENCE)
    assert found is None or isinstance(found["sentence"], str)


PIECES = ['{"sentence"', "'sentence'", "{", "}", "[", "]", "(", ")", ":", ",", '"', "'", "\n", "-", "+", "1j"]
PIECES += [
    "9" * 400,
    f"0x{'f' * 4000}",
    "1e999",
    "None",
    "NaN",
    "b'a'",
    "\\ud800",
    "\x00",
    "*" * 50,
    "a",
    "```",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_pieces_of_json_and_of_literals_in_any_order_are_read_without_an_error(text: str) -> None:
    for found in (parse_answer(text, SENTENCE), parse_answer(f"{{{text}}}", SENTENCE)):
        assert found is None or isinstance(found["sentence"], str)
