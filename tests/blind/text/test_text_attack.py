import functools

import numpy as np
import pandas as pd
import pytest

from caramel.blind.scorer_specs import list_scorers
from caramel.blind.stacking import SEES_ALL
from caramel.blind.text import attack as attacks
from caramel.blind.text.attack import BEST, load_attacker, run_caption_attack
from caramel.blind.text.surface import Rule, length
from caramel.blind.text.text_tasks import P1_N, PARAPHRASED, TASKS, Source
from caramel.errors import BackendError, ConfigError, DataError
from caramel.utils.hashing import assign_folds

ALL = tuple(found.name for found in list_scorers() if found.missing is None)
QUICK = ("length", "final_punctuation", "ngram", "probe", "edit_probe")


def noise(rows, seed, *, planted=0.0, mark="zap"):
    """Return audit rows whose sides are drawn by lot; a share of the negatives has a planted word."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(rows):
        first = [f"w{x}" for x in rng.integers(200, size=8)]
        second = list(first)
        second[rng.integers(8)] = f"w{rng.integers(200)}"
        sides = [" ".join(first), " ".join(second)]
        if rng.random() < 0.5:
            sides.reverse()
        if rng.random() < planted:
            sides[1] += f" {mark}"
        found.append((f"p{i}", f"i{i // 2}", "swap", f"swap_{('obj', 'att')[i % 2]}", *sides, None))
    columns = ["pair_id", "image_id", "type", "subtype", "caption", "negative_caption", "caption2"]
    return pd.DataFrame(found, columns=columns)


def test_a_planted_word_is_found_by_the_combination_and_by_the_probe():
    found = run_caption_attack(noise(300, 0, planted=0.6), QUICK, folds=5, seed=3)
    for name in (BEST, "probe", "edit_probe"):
        overall = found.figures[name]["overall"]
        assert overall["ci_low"] > 0.6
        assert overall["p_value"] < 0.001
    assert found.figures["final_punctuation"]["overall"]["p_value"] > 0.05


def test_two_faint_shortcuts_together_are_more_than_each():
    rows = noise(600, 1, planted=0.4)
    marked = np.random.default_rng(5).random(600) < 0.4
    rows["negative_caption"] = np.where(marked, rows["negative_caption"] + ".", rows["negative_caption"])
    found = run_caption_attack(rows, ("final_punctuation", "probe"), folds=5, seed=3)
    micro = {name: f["overall"]["micro"] for name, f in found.figures.items()}
    assert micro[BEST] > micro["final_punctuation"] + 0.05
    assert micro[BEST] >= micro["probe"] - 0.02


def test_on_noise_the_best_attacker_raises_no_alarm_in_19_of_20_seeds():
    """40 seeds: were the rate 5 %, more than 5 alarms would come up in 1.4 % of such tests."""
    found = [run_caption_attack(noise(120, s), QUICK[:4], folds=3, seed=s) for s in range(40)]
    overall = [f.figures[BEST]["overall"] for f in found]
    assert sum(o["p_value"] < 0.05 for o in overall) <= 5
    assert sum(o["ci_low"] > 0.5 for o in overall) <= 5
    assert np.mean([o["micro"] for o in overall]) == pytest.approx(0.5, abs=0.03)


def test_what_judges_a_fold_was_learned_without_its_rows(monkeypatch):
    """Scorers see all rows once, and then all rows but one fold's, once for each fold."""
    seen = []

    def recording(positives, negatives, cv):
        seen.append(set(positives) | set(negatives))
        return np.full(len(positives), 0.5), np.full(len(positives), 0.5)

    monkeypatch.setattr(attacks, "load_attacker", lambda spec, corpus: recording)
    rows = run_caption_attack(noise(100, 2), ["recording"], folds=5, seed=3).rows
    texts = rows["caption"] + "\n" + rows["negative_caption"]
    fold = assign_folds(attacks.group_rows(rows).names, folds=5, seed=3)
    outer, *inner = seen
    parts = [{*texts[fold == k].str.cat(sep="\n").split("\n")} for k in range(5)]
    assert outer == set().union(*parts)
    assert [outer - part for part in inner] == parts


def test_what_a_rule_measures_is_taken_as_it_is_and_never_learned(monkeypatch):
    rows, measured = noise(200, 1), []
    measure = Rule.measure_texts
    monkeypatch.setattr(Rule, "measure_texts", lambda *given: measured.append(given) or measure(*given))
    monkeypatch.setattr(Rule, "__call__", None)  # which learns the direction in folds
    found = run_caption_attack(rows, ["length", "words"], folds=3, seed=3)
    assert len(measured) == 2 * found.rows["type"].nunique()  # once, and in no fold


def test_the_labels_of_a_fold_have_no_part_in_its_guesses():
    """With caption and negative exchanged in all rows of a fold, what judges it is the same, turned round."""
    rows = noise(120, 4, planted=0.3).sort_values("pair_id", ignore_index=True)
    fold = assign_folds(attacks.group_rows(rows).names, folds=3, seed=3)
    here = fold == 1
    turned = rows.copy()
    turned.loc[here, ["caption", "negative_caption"]] = rows.loc[
        here, ["negative_caption", "caption"]
    ].to_numpy()
    assert (assign_folds(attacks.group_rows(turned).names, folds=3, seed=3) == fold).all()
    first, second = (run_caption_attack(r, ALL, folds=3, seed=3).gaps for r in (rows, turned))
    for name in (*ALL, BEST):
        assert first[name][here] == pytest.approx(-second[name][here], abs=1e-5), name
    assert np.abs(first[BEST][here]).mean() > 0.1
    assert np.abs(first[BEST][~here] - second[BEST][~here]).mean() > 0.01


def test_equal_input_gives_equal_gaps_in_any_order():
    rows = noise(80, 1, planted=0.5)
    first = run_caption_attack(rows, ALL, folds=4, seed=3)
    second = run_caption_attack(rows.sample(frac=1, random_state=1), ALL, folds=4, seed=3)
    assert first.rows["pair_id"].tolist() == second.rows["pair_id"].tolist()
    assert list(first.gaps) == [*ALL, BEST]
    for name, gaps in first.gaps.items():
        assert np.array_equal(gaps, second.gaps[name]), name
        assert (np.abs(gaps) <= 1).all()
    assert first.figures == second.figures


def test_each_type_is_attacked_by_itself():
    """Negatives are longer in one type and shorter in the other: together they would tell nothing."""
    texts = [f"cat {i}" for i in range(60)]
    longer = [f"{text} zap" for text in texts]
    rows = pd.DataFrame(
        {
            "pair_id": [f"p{i}" for i in range(60)],
            "image_id": [f"i{i}" for i in range(60)],
            "type": ["a", "b"] * 30,
            "subtype": ["a", "b"] * 30,
            "caption": np.where(np.arange(60) % 2, longer, texts),
            "negative_caption": np.where(np.arange(60) % 2, texts, longer),
            "caption2": None,
        }
    )
    found = run_caption_attack(rows, ["length"], folds=5, seed=3).figures["length"]
    assert found["by_type"]["a"]["accuracy"] == found["by_type"]["b"]["accuracy"] == 1


def test_a_large_type_is_attacked_in_part_by_whole_images(monkeypatch):
    monkeypatch.setattr(attacks, "MOST", 41)
    rows = noise(100, 3)
    found = run_caption_attack(rows, ["length"], folds=3, seed=3)
    assert len(found.rows) == 40
    assert (found.rows["image_id"].value_counts() == 2).all()


@pytest.mark.parametrize("count", [3, 6])
def test_few_rows_are_attacked_all_the_same(count):
    found = run_caption_attack(noise(count, 0), ALL, folds=5, seed=3)
    assert len(found.gaps[BEST]) == count


def test_rows_of_one_group_are_no_clean_data_set_but_an_error():
    with pytest.raises(DataError, match=r"rows: 1\). The rows of each type are all one group"):
        run_caption_attack(noise(1, 0), ["length"], folds=5, seed=3)
    one_image = noise(40, 0).assign(image_id="x.jpg")
    with pytest.raises(DataError, match=r"rows cannot be attacked \(number of rows: 40\)"):
        run_caption_attack(one_image, ["length"], folds=5, seed=3)


def test_a_type_of_one_group_is_left_out_of_the_attack():
    lonely = noise(5, 1).assign(type="add", subtype="add_obj", image_id="x.jpg")
    lonely["pair_id"] = "lonely" + lonely["pair_id"]
    found = run_caption_attack(
        pd.concat([noise(40, 0), lonely], ignore_index=True), ["length"], folds=5, seed=3
    )
    assert len(found.rows) == 40
    assert "add" not in set(found.rows["type"])


def test_a_corpus_reaches_the_scorers_that_learn_from_texts():
    assert isinstance(load_attacker("ngram", ["a b"]), functools.partial)
    assert load_attacker("length", ["a b"]).__wrapped__ is length
    assert not isinstance(load_attacker("ngram"), functools.partial)


def test_unknown_and_missing_scorers_are_errors():
    with pytest.raises(BackendError, match="probee"):
        run_caption_attack(noise(4, 0), ["probee"], folds=2, seed=3)
    with pytest.raises(ConfigError, match="No blind scorer"):
        run_caption_attack(noise(4, 0), [], folds=2, seed=3)


def tripled(rows, seed, *, planted=0.0):
    """Return ``noise`` with a paraphrase that is drawn as its texts are."""
    found = noise(rows, seed, planted=planted)
    rng = np.random.default_rng(seed + 1000)
    return found.assign(caption2=[" ".join(f"w{x}" for x in rng.integers(200, size=8)) for _ in range(rows)])


def test_each_task_has_its_chance_and_noise_is_at_it():
    found = [
        attack
        for s in range(8)
        for attack in attacks.run_attacks(tripled(150, s), QUICK[:4], PARAPHRASED, folds=3, seed=s)
    ]
    for task, chance in zip(PARAPHRASED, (1 / 2, 1 / 3, 1 / 3), strict=True):
        assert task.chance == chance
        overall = [attack.figures[BEST]["overall"]["micro"] for attack in found if attack.task == task]
        if not task.sees_all:  # whose negative is made from the caption: two of the three are alike
            assert np.mean(overall) == pytest.approx(chance, abs=0.06)


def test_a_planted_word_is_found_on_every_task():
    rows = tripled(300, 0, planted=0.6)
    for attack in attacks.run_attacks(rows, QUICK, TASKS, folds=4, seed=3):
        overall = attack.figures[BEST]["overall"]
        assert overall["ci_low"] > attack.task.chance + 0.1
        assert set(attack.figures) == {*QUICK, BEST, *(SEES_ALL if attack.task.sees_all else ())}
        assert attack.gaps[BEST].shape == ((300,) if len(attack.task.columns) == 1 else (300, 2))
        assert attack.seconds[BEST] == pytest.approx(sum(attack.seconds.values()) / 2, abs=0.01)
        assert attack.strongest in attack.figures


def test_rows_without_a_paraphrase_are_left_out_of_its_tasks():
    rows = tripled(80, 0)
    rows.loc[:19, "caption2"] = None
    assert {
        len(found.rows) for found in attacks.run_attacks(rows, ["length"], PARAPHRASED, folds=3, seed=3)
    } == {60}


def test_attackers_learn_from_what_another_data_set_gives_away():
    """Half of the words are the negatives' own, which the judged rows are too few to show."""
    clean, pool = noise(60, 7, planted=0.9), noise(400, 8, planted=0.9)
    pool["pair_id"] = "pool" + pool["pair_id"]
    pool["image_id"] = "pool" + pool["image_id"]
    found = run_caption_attack(clean, ["probe"], folds=5, seed=3, source=Source("pool", pool))
    assert found.figures[BEST]["overall"]["micro"] > 0.85
    assert (found.source, found.taught, len(found.rows)) == ("pool", 400, 60)


def test_no_row_is_judged_by_what_learned_from_its_image_or_a_near_duplicate(monkeypatch):
    seen = []

    def recording(positives, negatives, cv):
        seen.append((list(cv.groups), list(positives), cv.train_only))
        return np.full(len(positives), 0.5), np.full(len(positives), 0.5)

    monkeypatch.setattr(attacks, "load_attacker", lambda spec, corpus: recording)
    rows, pool = noise(40, 2), noise(80, 3)
    pool["pair_id"] = "pool" + pool["pair_id"]
    pool.loc[79, ["image_id", "caption"]] = ["elsewhere", rows.loc[3, "caption"] + " again"]
    run_caption_attack(rows, ["recording"], folds=5, seed=3, source=Source("pool", pool))
    (groups, texts, train_only), *inner = seen
    assert train_only.sum() == 80
    group = dict(zip(texts, groups, strict=True))
    assert group[rows.loc[3, "caption"] + " again"] == group[rows.loc[3, "caption"]]
    # Images of the pool and of the rows have the same names, so that each part leaves out its own.
    assert len(inner) == 5
    assert all(inside[2] is None and not set(inside[1]) & set(rows["caption"]) for inside in inner)


def test_rows_of_the_source_that_are_audited_too_teach_nothing():
    rows, pool = noise(40, 2, planted=0.5), noise(80, 3, planted=0.5)
    both = pd.concat([pool, rows.assign(caption=rows["caption"].str.title() + ".")], ignore_index=True)
    both["pair_id"] = [f"q{i}" for i in range(120)]
    found = [
        run_caption_attack(rows, ["probe"], folds=5, seed=3, source=Source("pool", of)) for of in (pool, both)
    ]
    assert found[0].taught == found[1].taught == 80
    with pytest.raises(DataError, match=r"cannot train on 'pool': .*rows: 40\)"):
        run_caption_attack(rows, ["probe"], folds=5, seed=3, source=Source("pool", rows))


def test_a_source_without_paraphrases_cannot_teach_who_sees_all_three():
    source = Source("pool", noise(80, 3).assign(image_id="other"))
    found = attacks.run_attacks(tripled(60, 0), ["length"], PARAPHRASED, folds=3, seed=3, source=source)
    assert [attack.task.name for attack in found] == ["P2-N", "ITT"]
    assert P1_N.chance == 0.5
