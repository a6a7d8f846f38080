"""One writer, or one for negatives and another for paraphrases."""

from typing import Any

import pandas as pd
import pytest

from caramel.interfaces.writer import WrittenCaption
from caramel.sources.captions.llm.split_filter import ELSEWHERE
from caramel.sources.captions.writing import write_captions

PAIRS = pd.DataFrame(
    {
        "pair_id": ["p", "q"],
        "caption": ["A dog runs.", "A cat sleeps."],
        "split": ["train", "test"],
        "scene": [None, None],
    }
)


def writer(name: str, verdicts: pd.DataFrame | None = None) -> Any:
    def write(pairs: pd.DataFrame, *, parts: list[str], seed: int) -> WrittenCaption:
        ids = [f"{pair}:{part}" for pair in pairs["pair_id"] for part in ("swap_obj", "paraphrase")]
        return WrittenCaption(
            pd.DataFrame({"negative_id": ["p:x"], "pair_id": ["p"], "negative_caption": ["a cat sleeps"]}),
            pd.DataFrame({"pair_id": ["q"], "caption2": [f"{name} {seed} {'+'.join(parts)}"]}),
            pd.DataFrame({"id": ids, "stage": "negatives", "reason": name, "text": None}),
            verdicts=verdicts,
        )

    return write


@pytest.fixture(autouse=True)
def writers(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"rules": writer("rules"), "words": writer("words"), "model": writer("model", pd.DataFrame())}
    monkeypatch.setattr("caramel.sources.captions.writing.WRITERS", known)


def test_one_writer_writes_both_parts_at_once() -> None:
    tables, llm_output = write_captions(PAIRS, negatives="rules", paraphrases="rules", seed=3)
    assert tables.paraphrases["caption2"].tolist() == ["rules 3 negatives+paraphrases"]
    assert llm_output is None


def test_of_two_writers_each_has_its_part_and_the_rejects_of_it() -> None:
    tables, _ = write_captions(PAIRS, negatives="rules", paraphrases="words", seed=3)
    assert tables.paraphrases["caption2"].tolist() == ["words 3 paraphrases"]
    assert dict(zip(tables.rejects["id"], tables.rejects["reason"], strict=True)) == {
        "p:swap_obj": "rules",
        "q:swap_obj": "rules",
        "p:paraphrase": "words",
        "q:paraphrase": "words",
    }


def test_texts_of_a_language_model_that_stand_in_another_split_are_rejects() -> None:
    tables, llm_output = write_captions(PAIRS, negatives="model", paraphrases="words", seed=3)
    assert tables.negatives.empty, "a cat sleeps in test"
    assert ELSEWHERE in tables.rejects["reason"].tolist()
    assert llm_output is not None
    assert len(llm_output.negatives) == 1
