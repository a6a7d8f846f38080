import numpy as np
import pytest
import small_language_models as small
from blind_scores import score_columns
from test_embedding_probe import planted, share_right

from caramel.blind.scorer_specs import load_scorer
from caramel.blind.text import finetuned as module
from caramel.errors import BackendError
from caramel.utils.resampling import CrossValidation


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> str:
    return str(small.encoder_folder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(autouse=True)
def _small(tmp_path, monkeypatch):
    """Untrained weights want larger steps than pretrained ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "RATE", 3e-3)
    monkeypatch.setattr(module, "HEAD_RATE", 1e-2)


def test_a_word_that_only_negatives_have_gives_them_away(folder):
    assert (
        share_right(score_columns(load_scorer(f"finetuned:{folder}"), *planted(120), folds=3, seed=3)) > 0.95
    )


def test_an_order_of_words_that_only_negatives_have_is_learned(folder, monkeypatch):
    """Which no attacker by the words' mean could tell: both sides hold the same words."""
    monkeypatch.setattr(module, "EPOCHS", 6)
    rng = np.random.default_rng(0)
    words = [[str(word) for word in rng.choice(small.WORDS[:12], 4)] for _ in range(300)]
    positives = [" ".join(["big", *some, "ball"]) for some in words]
    negatives = [" ".join(["ball", *some, "big"]) for some in words]
    scores = load_scorer(f"finetuned:{folder}")(
        positives, negatives, CrossValidation([str(i) for i in range(300)], 3, 3)
    )
    assert share_right(scores) > 0.95


def test_where_the_sides_are_drawn_by_lot_it_is_at_chance(folder):
    first, second, groups = planted(300)
    heads = np.random.default_rng(1).random(300) < 0.5
    positives = [a if h else b for a, b, h in zip(first, second, heads, strict=True)]
    negatives = [b if h else a for a, b, h in zip(first, second, heads, strict=True)]
    scores = load_scorer(f"finetuned:{folder}")(positives, negatives, CrossValidation(groups, 3, 3))
    assert share_right(scores) == pytest.approx(0.5, abs=0.1)


def test_equal_seeds_give_equal_scores_in_any_order_and_others_do_not(folder, tmp_path, monkeypatch):
    positives, negatives, groups = planted(40)
    first = load_scorer(f"finetuned:{folder}")(positives, negatives, CrossValidation(groups, 2, 3))
    order = np.random.default_rng(2).permutation(40)
    mixed = [[column[i] for i in order] for column in (positives, negatives, groups)]
    monkeypatch.setattr(module, "SCORED", tmp_path / "anew")
    second = score_columns(load_scorer(f"finetuned:{folder}"), *mixed, folds=2, seed=3)
    for a, b in zip(first, second, strict=True):
        assert a[order].tolist() == b.tolist()
    assert (
        score_columns(load_scorer(f"finetuned:{folder}"), *mixed, folds=2, seed=4)[0].tolist()
        != second[0].tolist()
    )


def test_the_generator_of_others_is_left_alone(folder):
    import torch

    torch.manual_seed(5)
    expected = torch.rand(3).tolist()
    torch.manual_seed(5)
    score_columns(load_scorer(f"finetuned:{folder}"), *planted(6), folds=2, seed=3)
    assert torch.rand(3).tolist() == expected


def test_a_fold_that_is_done_is_not_learned_again(folder, monkeypatch):
    rows = planted(30)
    train, calls = module._train_scorer, []

    def stopped(judge, true, false):
        calls.append(len(true))
        if len(calls) == 2:
            raise KeyboardInterrupt
        train(judge, true, false)

    monkeypatch.setattr(module, "_train_scorer", stopped)
    with pytest.raises(KeyboardInterrupt):
        score_columns(load_scorer(f"finetuned:{folder}"), *rows, folds=3, seed=3)
    score_columns(load_scorer(f"finetuned:{folder}"), *rows, folds=3, seed=3)
    assert len(calls) == 4
    score_columns(load_scorer(f"finetuned:{folder}"), *rows, folds=3, seed=3)
    assert len(calls) == 4


def test_too_few_rows_to_learn_from_tie(folder):
    positive, negative = load_scorer(f"finetuned:{folder}")(
        ["a dog"], ["a cat"], CrossValidation(["i"], 5, 3)
    )
    assert positive.tolist() == negative.tolist() == [0.5]


def test_a_folder_without_an_encoder_is_an_error_at_once(tmp_path):
    with pytest.raises(BackendError, match=r"finetuned:.*small transformers encoder"):
        load_scorer(f"finetuned:{tmp_path}")
