import numpy as np
import pandas as pd
import pytest

from caramel.audit.audit import audit_rows
from caramel.audit.score_gaps import COLUMNS, summarise_score_gaps


@pytest.fixture(scope="module")
def audited():
    """Return an audit of rows whose negatives are longer than the captions, and whose paraphrases are longest."""
    rows = pd.DataFrame(
        {
            "pair_id": [f"p{n}" for n in range(60)],
            "image_id": [f"i{n}" for n in range(60)],
            "type": "replace",
            "subtype": [("replace_obj", "replace_att")[n % 2] for n in range(60)],
            "caption": [f"A cat {n}" for n in range(60)],
            "caption2": [f"There is a single cat with number {n}" for n in range(60)],
            "negative_caption": [f"A big black dog {n}" for n in range(60)],
        }
    )
    return audit_rows(rows, scorers=["length"], folds=3, seed=0, name="n")


def test_the_gap_of_paraphrased_rows_is_the_mean_of_both_captions_gaps(audited) -> None:
    found = summarise_score_gaps(audited.attacks).set_index(["gap", "scorer", "subtype"])
    assert list(found.reset_index().columns) == COLUMNS
    itt = next(attack for attack in audited.attacks if attack.task.name == "ITT")
    expected = itt.gaps["length"].mean(axis=1)
    row = found.loc[("(P1 + P2) / 2 - N", "length", "all")]
    assert row["n"] == 60
    assert row["mean"] == pytest.approx(expected.mean(), abs=1e-5)
    assert row["median"] == pytest.approx(np.median(expected), abs=1e-5)
    assert row["above_zero"] == pytest.approx((expected > 0).mean())
    part = found.loc[("(P1 + P2) / 2 - N", "length", "replace_obj")]
    assert part["n"] == 30


def test_the_gap_of_captions_stands_beside_it(audited) -> None:
    found = summarise_score_gaps(audited.attacks)
    one = found[(found["gap"] == "P1 - N") & (found["scorer"] == "length") & (found["subtype"] == "all")]
    assert one["mean"].item() == pytest.approx(audited.attack.gaps["length"].mean(), abs=1e-5)
    assert set(found["gap"]) == {"P1 - N", "(P1 + P2) / 2 - N"}
