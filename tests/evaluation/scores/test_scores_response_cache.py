"""Replies are kept as they come; what cannot be a reply is not kept, or asked again."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from caramel.evaluation.scores.response_cache import ask_questions, load_replies
from caramel.interfaces.model import Question, Reply


class Says:
    """A ``Chooser`` that always replies the same."""

    name = "says"
    identity: dict[str, object] = {}  # noqa: RUF012

    def __init__(self, text: str) -> None:
        self.text, self.asked = text, 0

    def answer_questions(self, questions: Sequence[Question], on_reply: Callable[[int, Reply], None]) -> None:
        for place in range(len(questions)):
            self.asked += 1
            on_reply(place, Reply(self.text))


QUESTIONS = {"k1": Question("?", lambda: b""), "k2": Question("?", lambda: b"")}


def test_half_a_surrogate_pair_is_kept_as_a_character_that_can_be_written(tmp_path: Path) -> None:
    model = Says("B \ud83d")
    expected = {"k1": Reply("B \ufffd"), "k2": Reply("B \ufffd")}
    assert ask_questions(model, QUESTIONS, tmp_path) == expected
    assert ask_questions(model, QUESTIONS, tmp_path) == expected == load_replies(tmp_path)[0]
    assert model.asked == 2


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"key": "k1", "reply": "B \ud83d", "finish": "stop"}),
        json.dumps({"key": "k1", "reply": "B", "finish": "stop"})[:-3],
        json.dumps({"key": "k1", "reply": 7, "finish": "stop"}),
        json.dumps({"key": "k1", "reply": "B"}),
        json.dumps({"key": "k1"}),
        json.dumps(["k1", "B"]),
        "[" * 100_000,
        '{"key": "k1", "reply": ' + "9" * 5_000 + "}",
        "\x00",
    ],
)
def test_a_kept_reply_that_is_broken_is_asked_again_with_one_line(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = json.dumps({"key": "k2", "reply": "A", "finish": "stop"})
    (tmp_path / "old.jsonl").write_text(f"{line}\n{good}\n")
    model = Says("B")
    assert ask_questions(model, QUESTIONS, tmp_path) == {"k1": Reply("B"), "k2": Reply("A")}
    assert model.asked == 1
    said = [line for line in capsys.readouterr().err.splitlines() if "that are broken" in line]
    (line,) = said
    assert line.startswith(f"Lines in {str(tmp_path)!r} that are broken ")
    assert line.endswith(": 1. Their questions are asked again.")
    assert ask_questions(model, QUESTIONS, tmp_path) == {"k1": Reply("B"), "k2": Reply("A")}
    assert "broken" not in capsys.readouterr().err, "nothing is asked again"


def test_bytes_that_are_no_text_are_asked_again(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_bytes(b'{"key": "k1", "reply": "\xff"}\n')
    assert load_replies(tmp_path) == ({}, 1)
