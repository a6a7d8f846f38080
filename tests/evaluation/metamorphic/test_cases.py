"""Details are true or false by what the captions say, and a caption without details is counted with its reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from caramel.errors import DataError
from caramel.evaluation.metamorphic.cases import CaptionRow, append_detail, build_cases, read_caption_rows
from caramel.interfaces.scene_graph import Edge, Node, SceneGraph

ROWS = [
    CaptionRow("1.png", "A dog sleeps."),
    CaptionRow("1.png", "A brown dog on a mat"),
    CaptionRow("2.png", "A cat eats fish."),
    CaptionRow("2.png", "A black cat on a chair."),
]


def parse_captions(texts: Sequence[str]) -> list[SceneGraph]:
    """Parse "A brown dog on a mat" as a brown dog on a mat."""
    graphs = []
    for text in texts:
        words = text.lower().rstrip(".").split()
        if "on" in words:
            graphs.append(SceneGraph((Node(words[2], (words[1],)), Node(words[-1])), (Edge(0, "on", 1),)))
        else:
            graphs.append(SceneGraph((Node(words[1]),)))
    return graphs


def test_a_true_detail_is_of_the_same_image_and_a_false_one_shares_no_word_with_it() -> None:
    cases, reasons = build_cases(ROWS, parse=None, seed=0)
    case = cases[0]
    assert case.with_true == "A dog sleeps. A brown dog on a mat."
    assert case.with_false in ("A dog sleeps. A cat eats fish.", "A dog sleeps. A black cat on a chair.")
    assert case.paraphrase == "An image of a dog sleeps."
    assert case.paraphrase_with_false == case.with_false.replace("A dog", "An image of a dog")
    assert len(cases) == 4
    assert not reasons


def test_a_parser_gives_half_truths_of_one_noun() -> None:
    cases, reasons = build_cases(ROWS, parse=parse_captions, seed=0)
    assert cases[0].with_true == "A dog sleeps and a dog on a mat."
    assert cases[0].with_false == "A dog sleeps and a dog on a chair."
    assert {case.detail_type for case in cases} == {"relation"}
    # "A brown dog on a mat" holds all nouns of its image.
    assert reasons == {"no other caption of the image has a compound with a new noun": 2}


def test_equal_seeds_give_equal_details_in_any_order_of_the_rows() -> None:
    first = {case.caption: case for case in build_cases(ROWS, parse=parse_captions, seed=5)[0]}
    again = {case.caption: case for case in build_cases(ROWS[::-1], parse=parse_captions, seed=5)[0]}
    assert first == again


def test_one_caption_per_image_gives_no_case() -> None:
    cases, reasons = build_cases(ROWS[::2], parse=None, seed=0)
    assert not cases
    assert reasons == {"no other caption of the image says more": 2}


def test_details_of_the_file_are_used_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    row = {"filename": "1.png", "caption": "A dog.", "true_detail": "and a mat", "false_detail": "and a hat"}
    path.write_text(json.dumps({**row, "paraphrase": "There is a dog."}))
    (case,), _ = build_cases(read_caption_rows(path), parse=None, seed=0)
    assert case[1:] == (
        *("given", "A dog.", "A dog and a mat.", "A dog and a hat."),
        *("There is a dog.", "There is a dog and a hat."),
    )
    path.write_text(json.dumps({name: row[name] for name in ("filename", "caption", "true_detail")}))
    with pytest.raises(DataError, match="only one of the fields true_detail and false_detail"):
        read_caption_rows(path)


@pytest.mark.parametrize(
    ("name", "text"), [("a.txt", "A dog."), ("a.csv", "filename,caption\n"), ("a.jsonl", "1")]
)
def test_a_file_that_holds_no_captions_is_an_error(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError):
        read_caption_rows(tmp_path / name)


def test_a_detail_continues_the_sentence_or_is_one() -> None:
    assert append_detail("A dog. ", "and a mat.") == "A dog and a mat."
    assert append_detail("A dog", "A mat") == "A dog. A mat."
