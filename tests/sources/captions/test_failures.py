from __future__ import annotations

import pandas as pd

from caramel.sources.captions.failures import count_failures
from caramel.sources.captions.llm.checks import CLASSES
from caramel.sources.captions.llm.corrections import count_corrections


def test_drafts_and_lost_texts_are_counted_by_reason_and_the_five_classes_are_always_there() -> None:
    drafts = [
        ("p0:add_att", "a question"),
        ("p0:add_att", "a question"),
        ("p0:add_att", None),
        ("p1:replace_obj", "unfinished"),
        ("p0:paraphrase", "hallucination"),
        ("p0:paraphrase", "too few words in common"),
    ]
    rejects = [
        ("p1:replace_obj", "the model gave no reply"),
        ("p0:paraphrase", "too few words in common"),
    ]
    named = ["id", "reason"]
    found = count_failures(pd.DataFrame(drafts, columns=named), pd.DataFrame(rejects, columns=named))
    assert found["part"].tolist() == ["replace_obj"] * 2 + ["add_att"] + ["paraphrase"] * 6
    rows = {(part, reason): (d, r) for part, reason, d, r in found.itertuples(index=False)}
    assert rows["add_att", "a question"] == (2, 0)
    assert rows["replace_obj", "unfinished"] == (1, 0)
    assert rows["replace_obj", "the model gave no reply"] == (0, 1)
    assert rows["paraphrase", "hallucination"] == (1, 0)
    assert rows["paraphrase", "too few words in common"] == (1, 1)
    assert {reason for part, reason in rows if part == "paraphrase"} >= set(CLASSES)
    assert len(CLASSES) == len(set(CLASSES)) == 5
    nothing = count_failures(pd.DataFrame([], columns=named), pd.DataFrame([], columns=named))
    assert nothing["drafts"].tolist() == [0] * 5


def test_corrections_are_counted_by_what_was_wrong_before() -> None:
    drafts = [
        ("", "unfinished"),
        ("unfinished", "hallucination"),
        ("hallucination", ""),
        ("hallucination", "x"),
        ("", ""),
    ]
    assert count_corrections(drafts).values.tolist() == [["hallucination", 2, 1], ["unfinished", 1, 0]]
    assert count_corrections([("", "x"), ("", "")]).empty
