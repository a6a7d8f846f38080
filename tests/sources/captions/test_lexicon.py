import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.schemas.contracts import check_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions import lexicon, words
from caramel.sources.captions.lexicon import RULES, lexicon_negatives, write_paraphrase
from caramel.sources.captions.tokenization import Edit, apply_edits, parse_sentence, scan_words

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
    ("subtype", "allowed"),
    [
        (
            "replace_obj",
            {f"A white {a} in front of a red car." for a in words.NOUNS["animal"]}
            | {f"A white cat in front of a red {v}." for v in words.NOUNS["vehicle"]},
        ),
        (
            "replace_att",
            {
                f"A {a} cat in front of a {b} car."
                for a in words.ADJECTIVES["colour"]
                for b in words.ADJECTIVES["colour"]
            },
        ),
        ("replace_rel", {"A white cat behind a red car."}),
        ("swap_obj", {"A white car in front of a red cat."}),
        ("swap_att", {"A red cat in front of a white car."}),
    ],
)
def test_each_rule_makes_its_one_change(subtype, allowed):
    for seed in range(20):
        text = make(subtype, CAPTION, seed=seed).replace(" an ", " a ")
        assert text in allowed - {CAPTION}


@pytest.mark.parametrize("text", ["A buſ.", "A ſheep.", "A bırd.", "A BİRD.", "A \u212aite."])
def test_letters_that_have_a_capital_of_ascii_letters_make_no_word_of_the_lists(text):
    assert scan_words(text) == []


def test_additions_add_words_and_nothing_else():
    for seed in range(20):
        thing = make("add_obj", CAPTION, seed=seed)
        assert thing.startswith(CAPTION[:-1] + " and a")
        assert thing.endswith(".")
        described = make("add_att", "A cat under the car.", seed=seed)
        assert len(described.split()) == 6
        assert described.split()[-1] == "car."


@pytest.mark.parametrize(
    ("subtype", "text", "reason"),
    [
        ("replace_obj", "Something strange.", lexicon.NO_NOUN),
        ("replace_att", "A cat, black and in the sun.", lexicon.NO_ATTRIBUTE),
        ("replace_rel", "A cat.", lexicon.NO_RELATION),
        ("replace_rel", "A fire hydrant sitting in the grass.", lexicon.NO_RELATION),
        ("swap_obj", "A cat and a dog.", lexicon.NO_TWO_NOUNS),
        ("swap_obj", "A man next to a white woman.", lexicon.NO_TWO_NOUNS),
        ("swap_obj", "A man riding two horses.", lexicon.NO_TWO_NOUNS),
        ("swap_att", "A red cat chases a red dog.", lexicon.NO_TWO_ATTRIBUTES),
        ("swap_att", "A large red cat.", lexicon.NO_TWO_ATTRIBUTES),
        ("add_att", "A red cat.", lexicon.ALL_DESCRIBED),
    ],
)
def test_what_cannot_be_made_has_a_reason(subtype, text, reason):
    assert make(subtype, text) == f"<{reason}>"


def test_a_word_that_any_caption_of_the_image_says_is_never_the_new_one():
    others = ("Two girls play.",)
    assert make("replace_obj", "A boy runs.", others) == f"<{lexicon.ALL_SAID}>"
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
    ],
)
def test_articles_and_the_first_letter_agree_after_an_edit(text, edit, result):
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
        *(lexicon.NO_NOUN, lexicon.NO_ATTRIBUTE, lexicon.NO_RELATION, lexicon.NO_TWO_NOUNS),
        *(lexicon.NO_TWO_ATTRIBUTES, lexicon.ALL_SAID, lexicon.ALL_DESCRIBED, lexicon.QUESTION),
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
    assert shares["replace_obj"] > 0.7
