import numpy as np
import pandas as pd
import pytest
import small_language_models as small

from caramel.blind.scorer_specs import scorer
from caramel.blind.scores import score_pairs
from caramel.blind.surface import length
from caramel.errors import BackendError
from caramel.registry import BACKENDS


def test_a_name_is_its_scorer():
    assert scorer("length").__wrapped__ is length


@pytest.mark.parametrize("name", BACKENDS["model_scorer"])
def test_a_scorer_with_weights_wants_a_target(name):
    for spec in (name, f"{name}:"):
        with pytest.raises(BackendError, match=f"write {name}:FOLDER"):
            scorer(spec)


def test_a_scorer_without_weights_takes_no_target():
    with pytest.raises(BackendError, match="'length' takes no target, but 'length:x' gives one"):
        scorer("length:x")


@pytest.mark.parametrize(("wrong", "near"), [("veera:x", "vera"), ("ngran", "ngram")])
def test_an_unknown_scorer_lists_the_choices(wrong, near):
    with pytest.raises(BackendError, match=f"{wrong!r}.*Did you mean {near!r}") as stopped:
        scorer(wrong)
    for name in (*BACKENDS["scorer"], *(f"{name}:FOLDER" for name in BACKENDS["model_scorer"])):
        assert name in str(stopped.value)


def test_pairs_are_scored_by_a_spec_with_a_target(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = f"cola:{small.cola_folder(tmp_path / 'model')}"
    pairs = pd.DataFrame({"pair_id": ["a", "b"], "image_id": ["i", "j"], "caption": ["a dog.", "the cat."]})
    negatives = pd.DataFrame(
        {
            "negative_id": ["x", "y"],
            "pair_id": ["b", "a"],
            "type": ["swap", "add"],
            "subtype": ["swap_obj", "add_obj"],
            "negative_caption": ["a red dog.", "two men."],
        }
    )
    found = score_pairs(pairs, negatives, scorers=[spec, "length"], folds=2, seed=3)
    assert found["scorer"].tolist() == [spec, spec, "length", "length"]
    alone = scorer(spec)(["the cat."], ["a red dog."], ["j"], folds=2, seed=3)
    assert found.loc[0, ["positive_score", "negative_score"]].tolist() == np.concatenate(alone).tolist()
