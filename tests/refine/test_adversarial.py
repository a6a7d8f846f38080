import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from stored_images import Taken

from caramel.blind.blind_accuracy import compute_blind_accuracy
from caramel.blind.scores import score_pairs
from caramel.errors import ConfigError, DataError
from caramel.refine import adversarial as refinement
from caramel.refine.adversarial import compute_score_gaps, find_faults, refine_tables, select_unbalanced
from caramel.refine.mirrored_grid import UNIT, select_balanced
from caramel.refine.stored_tables import refine_stored_tables
from caramel.schemas.catalogue import TABLES
from caramel.schemas.contracts import check_table
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.scores import SCORES

DATA = os.environ.get("CARAMEL_DATA")
GRID = ("ngram", "probe")


def data(captions: list[str], negatives: list[str], subtypes: list[str] | None = None):
    """Return pairs, one negative and one paraphrase each, and empty scores."""
    names = [f"p{i:03d}" for i in range(len(captions))]
    pairs = build_frame(
        PAIRS,
        [
            {"pair_id": n, "image_id": n, "caption": c, "scene": None, "split": "test", "source": "x"}
            for n, c in zip(names, captions, strict=True)
        ],
    )
    rows = [
        {
            **{"negative_id": f"{n}:{s}", "pair_id": n, "type": s.split("_")[0], "subtype": s},
            **{"negative_caption": t, "generator": "x", "seed": 1, "attempt": 1},
        }
        for n, t, s in zip(names, negatives, subtypes or ["swap_obj"] * len(names), strict=True)
    ]
    paraphrases = [
        {"pair_id": n, "caption2": f"There is {c}", "generator": "x", "attempts": 1}
        for n, c in zip(names, captions, strict=True)
    ]
    return (
        pairs,
        build_frame(NEGATIVES, rows),
        build_frame(PARAPHRASES, paraphrases),
        build_frame(SCORES, []),
    )


class RefinedTables(NamedTuple):
    pairs: pd.DataFrame
    negatives: pd.DataFrame
    paraphrases: pd.DataFrame
    rejects: pd.DataFrame


def refined(pairs, negatives, paraphrases, scores, exempt=(), cell=0.02, scorers=GRID, within="subtype"):
    """Store the tables, refine them there, and return the written tables."""
    settings = {"scorers": scorers, "cell": cell, "within": within, "exempt": exempt, "folds": 3, "seed": 4}
    given = (pairs, negatives, paraphrases, scores)
    with TemporaryDirectory() as folder:
        paths = [
            write_table(table, rows, Path(folder) / f"{table.name}.parquet")
            for table, rows in zip((PAIRS, NEGATIVES, PARAPHRASES, SCORES), given, strict=True)
        ]
        out = Path(folder) / "refined"
        out.mkdir()
        refine_stored_tables(*paths, out, **settings)
        found = RefinedTables(*(read_table(TABLES[n], out / f"{n}.parquet") for n in RefinedTables._fields))
    assert sum(map(len, found)) == len(pairs) + len(negatives) + len(paraphrases)
    return found


def reasons(found) -> dict[str, str]:
    return dict(zip(found.rejects["id"], found.rejects["reason"], strict=True))


@pytest.mark.parametrize(
    ("gaps", "kept"),
    [
        ([(0.011, 0.5), (-0.019, -0.5)], 2),  # a cell and its mirror image
        ([(0.011, 0.5), (-0.021, -0.5)], 0),  # not the same cell
        ([(0.011, 0.5), (-0.019, 0.5)], 0),  # a mirror image in one axis only
        ([(0.02, 0.02), (-0.02, -0.02)], 2),  # on a border: the inner cell, on both sides
        ([(0.02, 0.02), (-0.021, -0.02)], 0),
        ([(0.3, 0.3)] * 3 + [(-0.3, -0.3)], 2),  # as many as on the smaller side
        ([(0, 0)], 1),
        ([(0, 0.15), (0, -0.19)], 2),  # one gap zero: bins of 0.1
        ([(0, 0.15), (0, -0.21)], 0),
        ([(0.15, 0), (-0.15, 0)], 2),
        ([(0.15, 0), (0, -0.15)], 0),  # each axis on its own
        ([(1, 1), (-1, -1)], 2),
    ],
)
def test_the_grid_keeps_a_pair_only_with_its_mirror_image(gaps, kept):
    units = np.rint(np.array(gaps) * UNIT).astype(np.int64)
    names = [f"n{i}" for i in range(len(gaps))]
    assert select_balanced(units, names, ["a"] * len(gaps), cell=0.02, seed=4).sum() == kept


def test_the_draw_depends_on_the_seed():
    gaps = np.repeat([[300_000, 300_000], [-300_000, -300_000]], [40, 20], axis=0)
    names = [f"n{i}" for i in range(60)]
    first, second = (select_balanced(gaps, names, ["a"] * 60, cell=0.02, seed=s) for s in (1, 2))
    assert first.sum() == second.sum() == 40
    assert (first != second).any()


def test_faults_are_found_up_to_case_space_and_punctuation():
    captions = ["A red cat.", "A dog!", "A man.", "A man", "...", "A hat."]
    negatives = ["A blue cat.", "a  Dog", "A bus.", "a bus", "A cup.", "!"]
    pairs, rows, paraphrases, _ = data(captions, negatives)
    paraphrases["caption2"] = ["a red cat", "One dog.", "Some man.", "A bus!", "A cup.", "?"]
    of_pairs, of_negatives, of_paraphrases = find_faults(pairs, rows, paraphrases)
    assert of_pairs.tolist() == ["", "", "", "", refinement.NO_WORDS, ""]
    assert of_negatives.tolist() == [
        *("", refinement.SAME_AS_CAPTION, "", refinement.SAME_AS_PARAPHRASE),
        *(refinement.NO_PAIR, refinement.NO_WORDS),
    ]
    assert of_paraphrases.tolist() == [
        *(refinement.SAME_AS_CAPTION, "", "", "", refinement.NO_PAIR, refinement.NO_WORDS)
    ]


def test_of_equal_pairs_of_texts_the_first_by_name_stays():
    pairs, rows, paraphrases, _ = data(["A cat.", "A cat", "A cat."], ["A dog.", "A dog.", "A cow."])
    assert find_faults(pairs, rows, paraphrases)[1].tolist() == ["", refinement.DUPLICATE, ""]
    assert find_faults(pairs, rows[::-1], paraphrases)[1].tolist() == ["", refinement.DUPLICATE, ""]


def test_a_row_with_another_fault_makes_no_other_row_a_duplicate():
    pairs, rows, paraphrases, _ = data(["A cat."] * 3, ["A dog."] * 3)
    paraphrases["caption2"] = ["a dog", "One cat.", "Some cat."]
    assert find_faults(pairs, rows, paraphrases)[1].tolist() == [
        *(refinement.SAME_AS_PARAPHRASE, "", refinement.DUPLICATE)
    ]


def test_a_missing_pair_is_an_error():
    pairs, rows, paraphrases, _ = data(["A cat.", "A dog."], ["A bus.", "A cup."])
    with pytest.raises(DataError, match="p001"):
        find_faults(pairs[:1], rows, paraphrases)


def test_refine_formats_everything_and_names_what_it_drops():
    captions, negatives = ["a cat ", "A dog", "a bus !"], ["a hat", "a DOG.", "a cup"]
    pairs, rows, paraphrases, scores = data(captions, negatives, ["add_obj"] * 3)
    found = refined(pairs, rows, paraphrases, scores, exempt=("add",))
    assert found.pairs["caption"].tolist() == ["A cat.", "A dog.", "A bus."]
    assert found.negatives["negative_caption"].tolist() == ["A hat.", "A cup."]
    assert found.paraphrases["caption2"].tolist() == ["There is a cat.", "There is A dog.", "There is a bus."]
    assert reasons(found) == {"p001:add_obj": refinement.SAME_AS_CAPTION}


def test_refine_changes_none_of_its_inputs():
    tables = data(["a cat ", "A dog"], ["a hat", "a DOG."])[:3]
    before = [rows.copy() for rows in tables]
    settings = {"cell": 1.0, "within": "all", "exempt": (), "folds": 2, "seed": 4}
    refine_tables(*tables, [], scorers=("length",), **settings)
    for old, new in zip(before, tables, strict=True):
        pd.testing.assert_frame_equal(old, new)


def test_an_empty_table_is_refined_to_an_empty_table():
    found = refined(*data([], []))
    assert [len(rows) for rows in found] == [0, 0, 0, 0]


def planted(rows: int = 120):
    """Return sets on which the probe is right far too often."""
    rng = np.random.default_rng(0)
    texts = [f"A {' '.join(f'w{i}' for i in rng.integers(30, size=4))} {n}." for n in range(2 * rows)]
    negatives = [t if i % 3 else t.replace("A ", "A purple ") for i, t in enumerate(texts[rows:])]
    return data(texts[:rows], negatives, ["swap_obj", "add_obj"] * (rows // 2))


def test_given_scores_are_used_where_formatting_changed_nothing():
    pairs, rows, paraphrases, _ = planted()
    half = np.arange(len(rows)) % 4 < 2  # of both subtypes: one half mirrors the other
    gap = np.where(half, 0.25, -0.25)
    scores = pd.concat(
        pd.DataFrame(
            {
                "negative_id": rows["negative_id"],
                "scorer": name,
                "positive_score": 0.5 + gap,
                "negative_score": 0.5,
            }
        )
        for name in GRID
    )
    assert len(refined(pairs, rows, paraphrases, scores).negatives) == len(rows)
    assert len(refined(pairs, rows, paraphrases, scores.iloc[:-1]).negatives) < len(rows)
    changed = pairs.assign(caption=pairs["caption"].str.rstrip("."))
    assert len(refined(changed, rows, paraphrases, scores).negatives) < len(rows)


def test_exempt_types_stay_whole_and_the_others_are_balanced():
    found = refined(*planted(), exempt=("add",), cell=0.25)
    assert (found.negatives["type"] == "add").sum() == 60
    assert 0 < (found.negatives["type"] == "swap").sum() < 60
    assert set(found.rejects["reason"]) == {refinement.UNBALANCED}


@pytest.mark.parametrize("within", ["subtype", "all"])
def test_rows_of_exempt_types_are_no_mirror_images_of_the_others(within):
    pairs, rows, paraphrases, _ = planted()
    exempt = rows["type"] == "add"
    scores = pd.DataFrame({"negative_id": rows["negative_id"], "scorer": "ngram"}).assign(
        positive_score=np.where(exempt, 0.4, 0.6), negative_score=0.5
    )
    found = refined(pairs, rows, paraphrases, scores, exempt=("add",), scorers=("ngram",), within=within)
    assert found.negatives["type"].tolist() == ["add"] * exempt.sum()


def test_exempt_types_change_nothing_in_the_others():
    whole, others = planted(), planted()
    others = (others[0], others[1][others[1]["type"] != "add"], *others[2:])
    for within in ("subtype", "all"):
        first = refined(*whole, exempt=("add",), cell=0.25, within=within).negatives
        second = refined(*others, exempt=("add",), cell=0.25, within=within).negatives
        first = first[first["type"] != "add"].reset_index(drop=True)
        assert len(first)
        pd.testing.assert_frame_equal(first, second)


def test_what_the_grid_left_out_is_had_back_as_it_was_formatted_and_no_other_reject():
    pairs, rows, paraphrases, scores = planted()
    rows.loc[0, "negative_caption"] = pairs.loc[0, "caption"]
    rows["negative_caption"] = rows["negative_caption"].str.rstrip(".")
    found = refined(pairs, rows, paraphrases, scores, cell=0.25)
    left_out = select_unbalanced(rows, found.rejects)
    assert refinement.SAME_AS_CAPTION in set(found.rejects["reason"])
    assert len(left_out) == len(rows) - len(found.negatives) - 1
    assert not left_out["negative_id"].isin(found.negatives["negative_id"]).any()
    assert left_out["negative_caption"].str.endswith(".").all()
    check_table(NEGATIVES, left_out, "test")


def test_refine_gives_the_same_rows_in_any_order():
    pairs, rows, paraphrases, scores = planted()
    mixed = (t.sample(frac=1, random_state=1) for t in (pairs, rows, paraphrases))
    first, second = refined(pairs, rows, paraphrases, scores, cell=0.25), refined(*mixed, scores, cell=0.25)
    assert len(first.negatives)
    for a, b, key in zip(first, second, ("pair_id", "negative_id", "pair_id", "id"), strict=True):
        pd.testing.assert_frame_equal(*(t.sort_values(key, ignore_index=True) for t in (a, b)))


def test_three_scorers_are_balanced_at_once():
    pairs, rows, paraphrases, scores = planted()
    three = ("ngram", "probe", "words")
    found = refined(pairs, rows, paraphrases, scores, cell=1, scorers=three, within="all")
    fitted = score_pairs(pairs, rows, scorers=three, folds=3, seed=4)
    left = fitted[fitted["negative_id"].isin(found.negatives["negative_id"])]
    gap = np.sign(left["positive_score"] - left["negative_score"])
    assert len(found.negatives) > 10
    assert gap.groupby(left["scorer"]).sum().tolist() == [0, 0, 0]


def test_one_grid_over_all_subtypes_keeps_more_than_one_for_each():
    each, one = (refined(*planted(), cell=0.25, within=w) for w in ("subtype", "all"))
    assert len(each.negatives) < len(one.negatives) < 120


@pytest.mark.parametrize(
    ("scorers", "cell"), [(("ngram", "ngram"), 0.02), ((), 0.02), (GRID, 0.0), (GRID, 1.5)]
)
def test_a_senseless_grid_is_an_error(scorers, cell):
    with pytest.raises(ConfigError, match="different scorers"):
        refined(*data(["A cat."], ["A dog."]), scorers=scorers, cell=cell)


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")
def test_after_refinement_a_fresh_attacker_is_near_chance_on_real_captions():
    from caramel.sources.captions.precomputed import given_negatives
    from caramel.sources.folders import read_pairs

    folder = str(Path(str(DATA)) / "sugarcrepe")
    pairs = read_pairs(data_dir=folder, val_test_frac=(0.1, 0.2), seed=1, put=Taken()).pairs
    written = given_negatives(pairs, data_dir=folder, seed=2, max_attempts=1)
    found = refined(pairs, written.negatives, written.paraphrases, build_frame(SCORES, []))
    after = score_pairs(found.pairs, found.negatives, scorers=GRID, folds=5, seed=5)
    for subsets in compute_blind_accuracy(after, found.negatives, pairs=found.pairs, folds=5).values():
        for kind in ("replace", "swap"):
            assert 0.4 < subsets[kind]["accuracy"] < 0.58
    assert 1000 < len(found.negatives) < 3000


def test_scores_in_parts_give_the_gaps_of_the_whole_and_a_missing_one_gives_none():
    scores = pd.DataFrame(
        {"negative_id": ["b", "a", "a", "b"], "scorer": ["x", "x", "y", "y"]}
        | {"positive_score": [0.5, 0.25, 1.0, 0.0], "negative_score": 0.5}
    )
    names, parts = pd.Series(["a", "b"]), [scores[:2], scores[2:]]
    gaps = compute_score_gaps([scores], names, ["y", "x"])
    assert gaps.tolist() == [[UNIT // 2, -UNIT // 4], [-UNIT // 2, 0]]
    assert compute_score_gaps(parts, names, ["y", "x"]).tolist() == gaps.tolist()
    assert compute_score_gaps(parts[:1], names, ["y", "x"]) is None
    with pytest.raises(DataError, match="two scores of one scorer"):
        compute_score_gaps([*parts, scores[3:]], names, ["y", "x"])


def test_texts_that_formatting_does_not_change_are_not_copied():
    tables = data(["A dog.", "A cat."], ["a bird", "A cow."])[:3]
    pairs, negatives, _ = refinement._format_tables(*tables)
    assert negatives["negative_caption"].tolist() == ["A bird.", "A cow."]
    own, formatted = (rows["caption"].array._pa_array.chunk(0).buffers()[2] for rows in (tables[0], pairs))
    assert own.address == formatted.address
