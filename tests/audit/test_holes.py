import pandas as pd
import pytest

from caramel.audit.attackers.attack import BEST
from caramel.audit.attackers.text_tasks import Source
from caramel.audit.audit import audit
from caramel.audit.holes import holes, learned_from


def benchmark(rows, start=0):
    """Return rows whose negative is longer than the caption in half of them, and always than the paraphrase."""
    names = [f"{a}{b}" for a in "bcdfghjklm" for b in "aeiou"][start : start + rows]
    found = [
        (
            f"p{n}",
            f"{n}.jpg",
            f"Cat {n} sees the dog.",
            f"{n}!",
            f"Cat {n} sees {'every single' if i % 2 else 'a'} bus.",
        )
        for i, n in enumerate(names)
    ]
    frame = pd.DataFrame(found, columns=["pair_id", "image_id", "caption", "caption2", "negative_caption"])
    return frame.assign(type="replace", subtype="replace_obj")


def test_the_largest_hole_is_the_one_furthest_on_the_way_from_chance_to_always_right():
    result = audit(
        benchmark(25),
        scorers=["length"],
        folds=5,
        seed=3,
        name="x",
        sources=[Source("pool", benchmark(20, 30))],
    )
    found = holes(result)
    assert {(hole.task, hole.source) for hole in found} >= {("P1-N", None), ("P1-N", "pool"), ("ITT", None)}
    assert [hole.excess for hole in found] == sorted((hole.excess for hole in found), reverse=True)
    overall = {
        (attack.task.name, attack.source): attack.figures[BEST]["overall"] for attack in result.attacks
    }
    for hole in found:
        assert hole.accuracy == overall[hole.task, hole.source]["micro"]
        assert hole.excess == pytest.approx((hole.accuracy - hole.chance) / (1 - hole.chance), abs=1e-5)
        assert hole.excess_low <= hole.excess <= hole.excess_high
    assert next(hole for hole in found if hole.task == "P2-N" and hole.source is None).excess == 1
    assert learned_from(None) == "its other folds"


def test_few_paraphrases_are_no_task():
    rows = benchmark(40)
    rows.loc[5:, "caption2"] = None
    result = audit(rows, scorers=["length"], folds=5, seed=3, name="x")
    assert [attack.task.name for attack in result.attacks] == ["P1-N"]
