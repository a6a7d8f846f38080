import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_models import SPACY

from caramel.errors import BackendError
from caramel.schemas.contracts import check_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions import lexicon, words
from caramel.sources.captions.lexicon import lexicon_negatives, write_paraphrase
from caramel.sources.captions.tokenization import Edit, apply_edits, parse_sentence, scan_words
from caramel.sources.captions.word_lists import heads
from caramel.sources.captions.word_lists.rules import RULES

DATA = os.environ.get("CARAMEL_DATA")
CAPTION = "A white cat in front of a red car."


def make(subtype: str, text: str, others: tuple[str, ...] = (), seed: int = 0) -> str:
    """Return the negative of a rule, or its reason in angle brackets."""
    made = RULES[subtype](parse_sentence(text, others), np.random.default_rng(seed))
    return f"<{made}>" if isinstance(made, str) else apply_edits(text, made)


def write(captions: list[str], images: list[str] | None = None, seed: int = 2):
    names = [f"p{i}" for i in range(len(captions))]
    pairs = pd.DataFrame({"pair_id": names, "image_id": images or names, "caption": captions})
    found = lexicon_negatives(pairs, data_dir="", seed=seed, max_attempts=1)
    for table, rows in zip((NEGATIVES, PARAPHRASES, REJECTS), found[:3], strict=True):
        check_table(table, rows, "test")
    return found


@pytest.mark.parametrize(
    ("subtype", "text", "allowed"),
    [
        (
            "replace_obj",
            CAPTION,
            {"A white dog in front of a red car.", "A white rabbit in front of a red car."}
            | {f"A white cat in front of a red {v}." for v in ("bus", "tractor")},
        ),
        (
            "replace_att",
            CAPTION,
            {f"A {a} cat in front of a red car." for a in ("black", "brown", "gray")}
            | {f"A white cat in front of a {b} car." for b in words.ADJECTIVES["colour"]},
        ),
        ("replace_rel", CAPTION, {"A white cat behind a red car."}),
        ("replace_rel", "A man holds a cup.", {"A man reaches for a cup."}),
        ("replace_rel", "A laptop on a bed.", {"A laptop under a bed."}),
        ("swap_obj", "A car in front of a bench.", {"A bench in front of a car."}),
        ("swap_obj", "A dog chasing a cat.", {"A cat chasing a dog."}),
        ("swap_obj", "A man in a hat and a woman.", {"A woman in a hat and a man."}),
        ("swap_att", "A white car by a red bench.", {"A red car by a white bench."}),
        (
            "add_obj",
            CAPTION,
            {
                f"A white cat in front of a red car and a {v}."
                for v in ("motorcycle", "van", "bicycle", "scooter")
            },
        ),
        ("add_obj", "A cat is on a bed.", {f"A cat and a {a} are on a bed." for a in ("dog", "rabbit")}),
        (
            "add_obj",
            "A plate with a fork on a table.",
            {f"A plate with a fork and a {a} on a table." for a in ("candle", "napkin", "lemon", "spoon")},
        ),
        ("add_att", "A cell phone.", {f"A {a} cell phone." for a in ("broken", "purple", "golden")}),
    ],
)
def test_each_rule_makes_its_one_change(subtype, text, allowed):
    for seed in range(20):
        assert make(subtype, text, seed=seed).replace(" an ", " a ") in allowed - {text}


@pytest.mark.parametrize(
    ("subtype", "text"),
    [
        ("swap_obj", "A kite behind a boy."),  # a living being and a thing
        ("swap_obj", "A man holding a boy."),  # no boy holds a man
        ("swap_obj", "A plate on a table."),  # no table lies on a plate
        ("swap_obj", "A man sitting next to a woman."),  # still true
        ("add_obj", "Some are sitting on an office chair."),  # nothing stands beside it on what they sit on
        ("add_obj", "A plate with a cup, a fork and a knife."),  # inside a list
        ("add_att", "A desk lamp shade."),  # inside a compound
        ("replace_obj", "A train station."),
        ("replace_att", "A black woman."),
        ("replace_rel", "A plate holding a sandwich."),
        ("replace_rel", "A man sitting in a car."),
    ],
)
def test_a_change_that_would_read_badly_is_not_made(subtype, text):
    for seed in range(5):
        assert make(subtype, text, seed=seed).startswith("<")


def test_pronouns_and_capitals_follow_a_replaced_noun():
    assert make("replace_obj", "A man waves his arm.") == "A woman waves her arm."
    found = write(["A BOY RUNS."])
    assert "A GIRL RUNS." in set(found.negatives["negative_caption"])


@pytest.mark.skipif(
    find_spec("spacy") is None or find_spec(SPACY) is None, reason=f"spaCy's model {SPACY} is missing"
)
def test_a_spacy_model_finds_phrases_that_endings_do_not():
    text = "A tan purse beside a silver knife."
    pairs = pd.DataFrame({"pair_id": ["p"], "image_id": ["i"], "caption": [text]})
    found = lexicon_negatives(pairs, seed=1, spacy_model=SPACY)
    texts = found.negatives.set_index("subtype")["negative_caption"]
    assert texts["swap_att"] == "A silver purse beside a tan knife."


def test_a_spacy_model_that_is_missing_is_an_error_that_names_the_setting():
    pytest.importorskip("spacy")
    pairs = pd.DataFrame({"pair_id": ["p"], "image_id": ["i"], "caption": ["A cat."]})
    with pytest.raises(BackendError, match="spacy:no_such_model cannot be loaded"):
        lexicon_negatives(pairs, seed=1, spacy_model="no_such_model")


@pytest.mark.parametrize("text", ["A buſ.", "A ſheep.", "A bırd.", "A BİRD.", "A \u212aite."])
def test_letters_that_have_a_capital_of_ascii_letters_make_no_word_of_the_lists(text):
    assert scan_words(text) == []


@pytest.mark.parametrize(
    ("subtype", "text", "reason"),
    [
        ("replace_obj", "Something strange.", heads.NO_NOUN),
        ("replace_att", "A cat, black and in the sun.", heads.NO_ATTRIBUTE),
        ("replace_rel", "A cat.", heads.NO_RELATION),
        ("replace_rel", "A fire hydrant sitting in the grass.", heads.NO_RELATION),
        ("swap_obj", "A cat and a dog.", heads.NO_TWO_NOUNS),
        ("swap_obj", "A man next to a white woman.", heads.NO_TWO_NOUNS),
        ("swap_obj", "A man riding two horses.", heads.NO_TWO_NOUNS),
        ("swap_att", "A red cat chases a red dog.", heads.NO_TWO_ATTRIBUTES),
        ("swap_att", "A large red cat.", heads.NO_TWO_ATTRIBUTES),
        ("add_att", "A red cat.", heads.ALL_DESCRIBED),
    ],
)
def test_what_cannot_be_made_has_a_reason(subtype, text, reason):
    assert make(subtype, text) == f"<{reason}>"


def test_a_word_that_any_caption_of_the_image_says_is_never_the_new_one():
    others = ("Two girls play.",)
    assert make("replace_obj", "A boy runs.", others) == f"<{heads.ALL_SAID}>"
    assert make("replace_obj", "A boy runs.") == "A girl runs."
    rows = write(["A small boy.", "One girl is there."], ["i", "i"])
    assert f"p0:{'replace_obj'}" in set(rows.rejects["id"])


@pytest.mark.parametrize(
    ("text", "edit", "result"),
    [
        ("A cat sits.", Edit(2, 5, "elephant"), "An elephant sits."),
        ("Cats sit.", Edit(0, 4, "dogs"), "Dogs sit."),
        ("See an apple.", Edit(7, 12, "banana"), "See a banana."),
        ("See the TV.", Edit(8, 10, "printer"), "See the printer."),
        ("An old man.", Edit(3, 6, "young"), "A young man."),
        ("A DOG ON A COUCH", Edit(2, 5, "owl"), "AN OWL ON A COUCH"),
        ("AN ELEPHANT ON A COUCH", Edit(3, 11, "rhino"), "A RHINO ON A COUCH"),
        ("AN ELEPHANT on a couch.", Edit(3, 11, "owl"), "AN owl on a couch."),
        ("A DOG ON A COUCH", Edit(5, 5, " with an umbrella"), "A DOG WITH AN UMBRELLA ON A COUCH"),
        ("A Dog On A Couch", Edit(11, 16, "air bed"), "A Dog On An Air Bed"),
        ("A Dog on a Couch", Edit(5, 5, " with an umbrella"), "A Dog with an Umbrella on a Couch"),
        ("A Dog on a couch", Edit(2, 5, "owl"), "An owl on a couch"),
    ],
)
def test_articles_and_capitals_agree_after_an_edit(text, edit, result):
    assert apply_edits(text, [edit]) == result


def test_an_accent_that_is_a_character_of_its_own_belongs_to_its_word():
    assert scan_words("A man\u0303ana by a cre\u0300me-car.") == []
    assert "cafe\u0301" in parse_sentence("A cat in a cafe\u0301.", ()).image_words
    assert apply_edits("A pin\u0303a cat.", [Edit(8, 11, "owl")]) == "A pin\u0303a owl."
    said_of = parse_sentence("A cat with pan\u0303 red car.", ())
    assert said_of.text[said_of.find_phrase_start(said_of.nouns[-1]) :] == "red car."


def test_scanning_knows_plurals_synonyms_and_compounds():
    assert [(f.word, f.plural) for f in scan_words("Two knives, sheep and TVs")] == [
        ("knife", True),
        ("sheep", False),
        ("television", True),
    ]
    assert [f.word for f in parse_sentence("A bathroom sink.", ()).nouns] == ["sink"]
    assert [f.word for f in scan_words("A carpet near a hot dog")] == ["near", "hot dog"]


@pytest.mark.parametrize(
    ("text", "paraphrase"),
    [
        ("A cat is on top of a red car.", "A red car is underneath a cat."),
        ("A cat under a table.", "A table above a cat."),  # a table need not lie on the cat
        ("A cat to the left of two dogs", "Two dogs to the right of a cat"),
        ("A man is riding a horse.", "There is a man riding a horse."),
        ("Two dogs sleeping on a bed.", "There are two dogs sleeping on a bed."),
        ("A man in a hat rides a horse.", None),
        ("The man riding a horse.", None),
        ("Blue sky.", None),
    ],
)
def test_paraphrases_turn_a_relation_or_start_with_there_is(text, paraphrase):
    assert write_paraphrase(parse_sentence(text, ())) == paraphrase


def test_a_question_is_rejected_for_every_subtype():
    found = write(["Is that a white cat?"])
    assert set(found.rejects["reason"]) == {lexicon.QUESTION}
    assert len(found.rejects) == 8


TEXTS = st.lists(
    st.sampled_from(
        [
            "a",
            "an",
            "the",
            "two",
            "red",
            "large",
            "cat",
            "cats",
            "man",
            "TV",
            "on",
            "top",
            "of",
            "next",
            "to",
            "riding",
            "is",
            "and",
            ",",
            ".",
            "?",
            "é",
        ]
    ),
    max_size=12,
).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXTS.filter(str.strip) | st.text(min_size=1, max_size=15), min_size=1, max_size=3))
def test_every_caption_gives_a_changed_text_or_a_reject(captions):
    found = write(captions, ["i"] * len(captions))
    said = dict(zip([f"p{i}" for i in range(len(captions))], captions, strict=True))
    assert len(found.negatives) + len(found.paraphrases) + len(found.rejects) == 8 * len(captions)
    assert (found.negatives["negative_caption"] != found.negatives["pair_id"].map(said)).all()
    assert set(found.rejects["reason"]) <= {
        *(heads.NO_NOUN, heads.NO_ATTRIBUTE, heads.NO_RELATION, heads.NO_TWO_NOUNS),
        *(heads.NO_TWO_ATTRIBUTES, heads.NO_INSERTION, heads.ALL_SAID, heads.ALL_DESCRIBED, lexicon.QUESTION),
        lexicon.NO_FORM,
    }


def test_the_draw_depends_on_seed_and_pair_alone():
    captions = ["A cat on top of a box.", CAPTION]
    both, one = write(captions).negatives, write(captions[:1]).negatives
    assert both[both["pair_id"] == "p0"].reset_index(drop=True).equals(one)
    texts = {write(captions[:1], seed=seed).negatives["negative_caption"][0] for seed in range(8)}
    assert len(texts) > 1


def test_what_is_written_does_not_depend_on_how_many_pairs_are_at_work(monkeypatch):
    captions = ["A red car is next to a blue bus.", "Nothing.", "A man is riding a horse."] * 3
    images = [f"i{n % 4}" for n in range(9)]
    whole = write(captions, images)
    monkeypatch.setattr(lexicon, "PAIRS", 2)
    for found, expected in zip(write(captions, images)[:3], whole[:3], strict=True):
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")
def test_real_captions_give_negatives_of_every_subtype():
    from caramel.sources.sugarcrepe_files import read_captions

    rows = read_captions(Path(str(DATA)) / "sugarcrepe").drop_duplicates(["image_id", "caption"])
    found = write(rows["caption"].tolist(), rows["image_id"].tolist())
    shares = found.negatives["subtype"].value_counts() / len(rows)
    assert set(shares.index) == set(RULES)
    assert shares["replace_obj"] > 0.5
