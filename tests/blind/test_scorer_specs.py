import numpy as np
import pandas as pd
import pytest
import small_language_models as small

from caramel.blind.scorer_specs import format_scorers_help, list_scorers, load_scorer
from caramel.blind.scores import score_pairs
from caramel.blind.text.linear_probe import score_with_edit_probe
from caramel.blind.text.surface import length
from caramel.errors import BackendError
from caramel.registry import SCORERS
from caramel.utils.resampling import CrossValidation


def test_a_name_is_its_scorer():
    assert load_scorer("length").__wrapped__ is length


WITH_MODEL = [found.name for found in list_scorers() if found.missing is not None]


@pytest.mark.parametrize("name", WITH_MODEL)
def test_a_scorer_with_weights_wants_a_target(name):
    for spec in (name, f"{name}:"):
        with pytest.raises(BackendError, match=f"write {name}:FOLDER"):
            load_scorer(spec)


def test_a_scorer_without_weights_takes_no_target():
    with pytest.raises(BackendError, match="'length' takes no target, but 'length:x' gives one"):
        load_scorer("length:x")


@pytest.mark.parametrize(("wrong", "near"), [("veera:x", "vera"), ("ngran", "ngram")])
def test_an_unknown_scorer_lists_the_choices(wrong, near):
    with pytest.raises(BackendError, match=f"{wrong!r}.*Did you mean {near!r}") as stopped:
        load_scorer(wrong)
    plain = [name for name in SCORERS if name not in WITH_MODEL and name != "edit_probe"]
    choices = ", ".join([*plain, *(f"{name}:FOLDER" for name in WITH_MODEL)])
    assert str(stopped.value).endswith(f"Choices: {choices}.")


def test_a_scorer_that_sees_both_captions_is_had_only_where_that_is_asked_for():
    with pytest.raises(BackendError, match="Unknown scorer 'edit_probe'"):
        load_scorer("edit_probe")
    assert load_scorer("edit_probe", both=True).__wrapped__ is score_with_edit_probe


def test_each_scorer_is_described_under_its_name_in_a_line():
    assert [found.name for found in list_scorers()] == list(SCORERS)
    lines = format_scorers_help()
    assert [line.split()[0].removesuffix(":FOLDER") for line in lines] == list(SCORERS)
    assert all(
        found.help in line and len(line) < 75 for found, line in zip(list_scorers(), lines, strict=True)
    )


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
    alone = load_scorer(spec)(["the cat."], ["a red dog."], CrossValidation(["j"], 2, 3))
    assert found.loc[0, ["positive_score", "negative_score"]].tolist() == np.concatenate(alone).tolist()
