import numpy as np
import pandas as pd

from caramel.audit.artifacts import PROPERTIES, SHOWN, TOP, find_artifacts
from caramel.blind.text import surface
from caramel.blind.text.surface import Rule


def rows_of(captions, negatives, kind="add"):
    return pd.DataFrame(
        {
            "pair_id": [f"p{i:03}" for i in range(len(captions))],
            "type": kind,
            "caption": captions,
            "negative_caption": negatives,
        }
    )


def planted(count=120, seed=0):
    """Return rows of which every third negative says "purple", and every fifth caption says "green"."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(f"w{i}" for i in rng.integers(50, size=6)) for _ in range(2 * count)]
    captions = [t if i % 5 else f"green {t[t.index(' ') + 1 :]}" for i, t in enumerate(texts[:count])]
    negatives = [t if i % 3 else f"purple {t[t.index(' ') + 1 :]}" for i, t in enumerate(texts[count:])]
    return rows_of(captions, negatives)


def test_planted_words_come_first_with_their_counts_and_rows():
    rows = planted()
    terms = find_artifacts(rows, seed=3)["add"]["terms"]
    assert len(terms) == TOP
    by_term = {t["term"]: t for t in terms[:4]}
    purple, green = by_term["purple"], by_term["green"]
    assert purple["weight"] < 0 < green["weight"]
    assert (purple["true_captions"], purple["negatives"]) == (0, 40)
    assert (green["true_captions"], green["negatives"]) == (24, 0)
    assert purple["examples"] == ["p000", "p003", "p006", "p009", "p012"]
    assert len(green["examples"]) == SHOWN


def test_a_term_that_both_captions_have_gives_nothing_away():
    rows = rows_of([f"the cat {i}" for i in range(20)], [f"the dog {i}" for i in range(20)])
    names = {t["term"] for t in find_artifacts(rows, seed=3)["add"]["terms"]}
    assert {"cat", "dog"} <= names
    assert not {"the", "<s>", "length 5"} & names


def test_properties_say_which_way_they_point():
    rows = rows_of(
        [f"a cat {i % 10}" for i in range(60)], [f"a cat and a dog {i % 10}." for i in range(60)], kind="x"
    )
    found = {p["property"]: p for p in find_artifacts(rows, seed=3)["x"]["properties"]}
    assert found["length"]["true_caption_is"] == "shorter"
    assert found["final_punctuation"]["true_caption_is"] == "without a final stop"
    assert (found["length"]["true_captions"], found["length"]["negatives"]) == (60, 0)
    assert found["length"]["examples"] == ["p000", "p001", "p002", "p003", "p004"]
    assert "digits" not in found
    assert "casing" not in found
    turned = rows.rename(columns={"caption": "negative_caption", "negative_caption": "caption"})
    found = {p["property"]: p for p in find_artifacts(turned, seed=3)["x"]["properties"]}
    assert found["length"]["true_caption_is"] == "longer"
    assert (found["length"]["true_captions"], found["length"]["negatives"]) == (0, 60)


def test_a_property_that_may_be_chance_is_left_out():
    captions = ["a cat"] * 11 + ["a cat on a mat"] * 9
    negatives = ["a cat on a mat"] * 11 + ["a cat"] * 9
    assert find_artifacts(rows_of(captions, negatives), seed=3)["add"]["properties"] == []


def test_equal_input_gives_equal_findings_in_any_order():
    rows = planted()
    assert find_artifacts(rows, seed=3) == find_artifacts(rows.sample(frac=1, random_state=1), seed=3)


def test_every_rule_has_a_name_for_either_side():
    rules = {name for name, value in vars(surface).items() if isinstance(value, Rule)}
    assert set(PROPERTIES) == rules
