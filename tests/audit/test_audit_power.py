"""The simulation of the audit's power plants what it says, and the audit finds it where it can be found."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from blind_scores import score_columns
from scripts import load_script

from caramel.blind.text.linear_probe import score_with_probe, score_with_shrunk_probe
from caramel.utils.stats import share_interval, variance_factor
from caramel.utils.text import extract_words

SIMULATION = Path(__file__).parents[2] / "bench" / "audit_power.py"
SCORERS = ("length", "final_punctuation", "ngram", "probe")
KINDS = ("word", "length", "punctuation", "word order")


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    return load_script(SIMULATION, "simulated_audit_power")


def has(kind: str, text: str, other: str) -> bool:
    """Return whether a text is the one of the two with the property."""
    if kind == "word":
        return "in view" in text
    if kind == "length":
        return len(extract_words(text)) > len(extract_words(other))
    if kind == "punctuation":
        return not text.endswith(".")
    return extract_words(text)[1] in ("red", "green", "blue", "black", "white", "brown", "yellow", "grey")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strength", [0.0, 0.4, 1.0])
def test_a_shortcut_changes_who_is_the_negative_and_no_text(
    simulation: ModuleType, kind: str, strength: float
) -> None:
    rows, clean = (simulation.draw_planted_rows(kind, s, rows=400, seed=3) for s in (strength, 0.0))
    pairs = [
        [{c, n} for c, n in zip(table["caption"], table["negative_caption"], strict=True)]
        for table in (rows, clean)
    ]
    assert pairs[0] == pairs[1]
    texts = zip(rows["negative_caption"], rows["caption"], strict=True)
    share = np.mean([has(kind, negative, caption) for negative, caption in texts])
    assert share == pytest.approx((1 + strength) / 2, abs=0.07 * (1 - strength))
    for other in set(KINDS) - {kind}:
        texts = zip(rows["negative_caption"], rows["caption"], strict=True)
        assert np.mean([has(other, n, c) for n, c in texts]) == pytest.approx(0.5, abs=0.09), other


@pytest.mark.parametrize(("strength", "rows"), [(0.0, 600), (0.08, 600), (0.15, 300)])
def test_the_ideal_attackers_power_is_that_of_drawn_hits(
    simulation: ModuleType, strength: float, rows: int
) -> None:
    rng = np.random.default_rng(5)
    one, each = np.zeros(rows, dtype=np.int64), np.arange(rows)
    for factor in (1.0, variance_factor(simulation.FOLDS)):
        hits = rng.random((2000, rows)) < (1 + strength) / 2
        found = np.mean([share_interval(h.astype(float), one, each, factor=factor)[1] > 0.5 for h in hits])
        assert found == pytest.approx(simulation.compute_ideal_power(strength, rows, factor=factor), abs=0.05)


@pytest.mark.parametrize(("rows", "limit", "old"), [(100, 0.6, 0.745), (807, 0.6, 0.651), (300, 0.52, 0.605)])
def test_where_the_old_rule_stopped_first_the_new_one_had_stopped_long_before(
    simulation: ModuleType, rows: int, limit: float, old: float
) -> None:
    accepted, refused, at_chance = simulation.compute_acceptance_bounds(rows, limit)
    assert refused == pytest.approx(old, abs=0.001)
    assert accepted == pytest.approx(2 * limit - old, abs=0.006)
    hits = np.random.default_rng(0).normal(0.5, 0.5 / (rows / variance_factor(5)) ** 0.5, 20_000)
    assert np.mean(hits <= accepted) == pytest.approx(at_chance, abs=0.06)


def test_plain_shortcuts_are_found_and_a_clean_set_raises_no_alarm(simulation: ModuleType) -> None:
    found = simulation.measure_power(300, 3, 20, scorers=SCORERS, jobs=1, first=100, strengths=(0.6,))
    clean, *planted = found
    assert clean.kind == "clean"
    assert max(clean.by_interval, clean.by_test) <= 0.05
    assert [one.kind for one in planted] == list(KINDS)
    for one in planted:
        assert one.by_interval == 1.0, one
        assert one.accuracy <= one.ideal_accuracy + 0.03, one
    assert not any(one.missed for one in found)


def test_a_goal_that_is_missed_is_said(simulation: ModuleType) -> None:
    blind = [(0.5, 0.44, 0.5)] * 40
    assert simulation.summarise_draws("word", 0.4, 600, blind).missed
    assert not simulation.summarise_draws("word", 0.05, 600, blind).missed, "nobody could find it"
    assert simulation.summarise_draws("clean", 0.0, 600, [*blind[:30], *[(0.6, 0.55, 0.01)] * 10]).missed


def test_a_strong_penalty_finds_on_few_rows_what_words_alone_drown_in(simulation: ModuleType) -> None:
    found = []
    for seed in range(4):
        rows = simulation.draw_planted_rows("word", 0.2, rows=600, seed=seed)
        texts = [rows[name].tolist() for name in ("caption", "negative_caption", "image_id")]
        for attacker in (score_with_shrunk_probe, score_with_probe):
            true, false = score_columns(attacker, *texts, folds=5, seed=3)
            found.append(float(np.mean((true > false) + 0.5 * (true == false))))
    strong, weak = np.reshape(found, (4, 2)).mean(axis=0)
    assert strong > 0.57 > weak
