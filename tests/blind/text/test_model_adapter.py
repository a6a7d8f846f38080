import pytest

from caramel.blind.scorer_specs import list_scorers
from caramel.blind.text.model_adapter import BLIND, load_blind
from caramel.errors import BackendError
from caramel.interfaces.model import BlindModel
from caramel.models.specs import missing_of, open_model
from caramel.utils.hashing import assign_folds

ALL = tuple(found.name for found in list_scorers() if found.missing is None)
SCORERS = tuple(found.name for found in list_scorers() if found.missing is None and not found.sees_both)
POSITIVES = [f"A dog sits by the {thing} number {i}" for i in range(20) for thing in ("sofa", "tree")]
NEGATIVES = [
    f"A cat of steel sits by number {i} of the {thing}" for i in range(20) for thing in ("sofa", "tree")
]
GROUPS = [f"{i}.jpg" for i in range(20) for _ in range(2)]


def blind(scorer: str) -> BlindModel:
    return load_blind(scorer, device="cpu", precision="fp32", name=f"blind:{scorer}")


@pytest.mark.parametrize("scorer", ALL)
def test_every_scorer_is_a_blind_model_that_gives_each_caption_a_score(scorer):
    model = open_model(f"blind:{scorer}", "cpu", "fp32")
    assert isinstance(model, BlindModel)
    assert model.name == f"blind:{scorer}"
    assert model.sees_both == (scorer not in SCORERS)
    assert missing_of(f"blind:{scorer}") == []
    true, false = model.score_texts(POSITIVES, NEGATIVES, GROUPS)
    assert true.shape == false.shape == (40,)
    assert ((true >= 0) & (true <= 1) & (false >= 0) & (false <= 1)).all()


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_text_has_one_score_per_image_wherever_it_stands(scorer):
    # Every text stands on both sides, against several others of its image.
    positives = POSITIVES + NEGATIVES + POSITIVES
    negatives = NEGATIVES + POSITIVES[::-1] + NEGATIVES[::-1]
    groups = GROUPS * 3
    seen: dict[tuple[str, str], set[float]] = {}
    sides = zip((positives, negatives), blind(scorer).score_texts(positives, negatives, groups), strict=True)
    for texts, values in sides:
        for group, text, value in zip(groups, texts, values.tolist(), strict=True):
            seen.setdefault((group, text), set()).add(value)
    assert len(seen) > 80
    assert {len(values) for values in seen.values()} == {1}


def test_a_learned_scorer_finds_what_gives_the_negatives_away():
    true, false = blind("probe").score_texts(POSITIVES, NEGATIVES, GROUPS)
    assert (true > false).mean() > 0.9


def test_what_is_learned_for_an_image_is_learned_on_other_folds():
    # In the fold of this image alone the true caption is the shorter one.
    fold = assign_folds(GROUPS, folds=5, seed=3)
    odd = fold == fold[0]
    positives = [p if o else f"{p} on a long long day" for p, o in zip(POSITIVES, odd, strict=True)]
    negatives = [f"{n} on a long long long day" if o else n for n, o in zip(NEGATIVES, odd, strict=True)]
    true, false = blind("length").score_texts(positives, negatives, GROUPS)
    assert (true > false)[~odd].all()
    assert (true < false)[odd].all()


def test_an_unknown_scorer_is_named_with_the_choices():
    with pytest.raises(BackendError, match=r"'lenght'.*Did you mean 'length'"):
        blind("lenght")
    assert "Did you mean 'length'" in BLIND.missing("lenght")[0]
