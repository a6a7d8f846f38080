import numpy as np
import pandas as pd
import pytest

from caramel.errors import BackendError
from caramel.refine import adversarial as refinement
from caramel.refine.rows import build_rejects, compute_row_gaps, repair_rows
from caramel.schemas.contracts import check_table
from caramel.schemas.rejects import REJECTS


def rows(captions, negatives, paraphrases=None) -> pd.DataFrame:
    n = len(captions)
    return pd.DataFrame(
        {
            **{"pair_id": [f"p{i}" for i in range(n)], "image_id": [f"i{i}" for i in range(n)]},
            **{"type": "any", "subtype": "of any kind", "caption": captions},
            **{"caption2": paraphrases or [None] * n, "negative_caption": negatives},
        }
    )


def test_repair_formats_all_texts_and_says_why_a_row_is_rejected():
    data = rows(
        ["a cat ", "A dog", "a bus !", "A hat.", "A cup."],
        ["a hat", "a DOG.", "", "A coat.", "A mug."],
        [None, None, None, "a hat", "One  cup"],
    )
    before = data.copy()
    kept, rejects = repair_rows(data)
    assert kept["caption"].tolist() == ["A cat.", "A cup."]
    assert kept["negative_caption"].tolist() == ["A hat.", "A mug."]
    assert kept["caption2"].isna().tolist() == [True, False]
    assert kept["caption2"][1] == "One cup."
    assert dict(zip(rejects["id"], rejects["reason"], strict=True)) == {
        "p1": refinement.SAME_AS_CAPTION,
        "p2": refinement.NO_WORDS,
        "p3": f"paraphrase: {refinement.SAME_AS_CAPTION}",
    }
    check_table(REJECTS, rejects, "test")
    pd.testing.assert_frame_equal(data, before)


def test_a_row_is_no_duplicate_of_one_whose_paraphrase_is_unusable():
    data = rows(["A cat."] * 3, ["A dog."] * 3, ["a cat", "One cat.", "Some cat."])
    kept, rejects = repair_rows(data)
    assert kept["pair_id"].tolist() == ["p1"]
    assert dict(zip(rejects["id"], rejects["reason"], strict=True)) == {
        "p0": f"paraphrase: {refinement.SAME_AS_CAPTION}",
        "p2": refinement.DUPLICATE,
    }


def test_repaired_rows_need_no_repair():
    kept, _ = repair_rows(rows(["a cat", "A dog"], ["a hat", "a bus"]))
    again, rejects = repair_rows(kept)
    pd.testing.assert_frame_equal(kept, again)
    assert rejects.empty


def test_rejected_rows_have_their_reasons():
    data = rows(["A cat.", "A dog."], ["A hat.", "A bus."])
    found = build_rejects(data, np.array(["", "because"], dtype=object))
    assert found.to_dict("records") == [
        {"id": "p1", "stage": "refine", "reason": "because", "text": "A bus."}
    ]


def test_a_gap_with_a_paraphrase_is_the_mean_of_both_captions_less_the_negative():
    captions = [f"A {'very ' * (i % 5)}red cat number {i}." for i in range(30)]
    paraphrases = [f"Cat number {i}{' indeed' * (i % 3)}." for i in range(30)]
    negatives = [f"A blue cat number {i}." for i in range(30)]
    half = [p if i % 2 else None for i, p in enumerate(paraphrases)]
    gaps = compute_row_gaps(rows(captions, negatives, half), ["length"], folds=3, seed=1)[:, 0]

    def signed(text: str, negative: str) -> float:
        return 1 / (1 + len(text) / 100) - 1 / (1 + len(negative) / 100)

    for i, gap in enumerate(np.abs(gaps).tolist()):
        texts = [captions[i]] if half[i] is None else [captions[i], paraphrases[i]]
        wanted = abs(sum(signed(t, negatives[i]) for t in texts) / len(texts))
        assert gap == pytest.approx(1e6 * wanted, abs=2)


def test_types_are_scored_by_themselves():
    long, short = ["A cat on a mat."] * 20, ["A cat."] * 20
    data = rows(long + short, short + long).assign(type=["one"] * 20 + ["other"] * 20)
    assert (compute_row_gaps(data, ["length"], folds=4, seed=1) > 0).all()


def test_an_unknown_scorer_is_an_error():
    with pytest.raises(BackendError, match="lenght"):
        compute_row_gaps(rows(["A cat."], ["A dog."]), ["lenght"], folds=2, seed=1)
