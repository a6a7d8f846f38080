import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.audit.defects import (
    CLIP_TOKENS,
    LONGEST_TOKEN,
    clean_for_clip,
    find_defects,
    is_cut_by_clip,
    is_damaged,
    is_not_english,
    load_clip_words,
)
from caramel.sources.sugarcrepe_files import read_captions

DATA = os.environ.get("CARAMEL_DATA")
FOUR = ["negative_equals_caption", "paraphrase_equals_caption", "duplicate_pair", "word_order_only"]
PUBLIC = ["sugarcrepe", "sugarcrepe_pp", "sugarcrepe_unrefined"]


def rows(*texts: tuple[str, str | None, str], images: str = "") -> pd.DataFrame:
    """Return audit rows of (caption, paraphrase, negative), named a, b, c …, each of its own image."""
    names = [chr(ord("a") + n) for n in range(len(texts))]
    table = pd.DataFrame(texts, columns=["caption", "caption2", "negative_caption"], dtype=object)
    table.index = pd.Index(range(7, 7 + len(texts)))  # rows are found by position, whatever the index
    return table.assign(pair_id=names, image_id=list(images or names))


def found(*texts: tuple[str, str | None, str], images: str = "") -> dict[str, list[str]]:
    """Return the defects that were found at all."""
    return {name: ids for name, ids in find_defects(rows(*texts, images=images)).items() if ids}


def test_a_clean_table_has_no_defect_and_every_defect_has_its_entry():
    defects = find_defects(rows(("A cat.", "One cat.", "A dog."), ("A man.", None, "A boy.")))
    assert list(defects)[:4] == FOUR
    assert "image_in_two_splits" not in defects  # there are no splits to look at
    assert not any(defects.values())


def test_equal_texts_are_found_up_to_case_space_and_punctuation():
    assert found(("A cat.", None, "a  CAT!")) == {"negative_equals_caption": ["a"]}
    assert found(("A cat.", "a cat", "A dog.")) == {"paraphrase_equals_caption": ["a"]}
    assert found(("A cat.", "One dog!", "one dog")) == {"paraphrase_equals_negative": ["a"]}
    assert found(("A cat.", None, "A dog."), ("a cat", None, "a dog")) == {"duplicate_pair": ["b"]}
    assert found(("A cat sees a dog.", None, "A dog sees a cat.")) == {"word_order_only": ["a"]}


def test_a_caption_that_is_a_negative_elsewhere_is_found_for_the_same_image_alone():
    first, second = ("A cat sits.", None, "A dog sits."), ("The dog sits", None, "The bird sits")
    assert found(first, second, images="xx") == {"contradictory_roles": ["a", "b"]}
    assert found(first, second, images="xy") == {}
    third = ("A man.", "A dog sits.", "A boy.")
    assert found(third, first, images="xx") == {"contradictory_roles": ["a", "b"]}


def test_a_negative_that_is_true_within_its_row_alone_is_another_defect():
    assert found(("A cat.", None, "A cat."), ("A dog.", None, "A boy."), images="xx") == {
        "negative_equals_caption": ["a"]
    }


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(*[st.sampled_from(["A cat", "the cat", "a dog", "two", ""])] * 3, st.sampled_from("xy"))
    )
)
def test_contradictory_roles_are_those_of_all_pairs_of_rows(drawn):
    table = rows(*[texts[:3] for texts in drawn], images="".join(texts[3] for texts in drawn))

    def key(text: str) -> list[str]:
        return [word for word in text.lower().split() if word not in ("a", "the")]

    expected = set()
    for i, one in enumerate(drawn):
        for j, other in enumerate(drawn):
            true = [key(text) for text in one[:2] if text]
            if i != j and one[3] == other[3] and other[2] and key(other[2]) in true:
                expected |= {table["pair_id"].iloc[i], table["pair_id"].iloc[j]}
    assert find_defects(table)["contradictory_roles"] == sorted(expected)


def test_texts_without_a_word_are_empty():
    given_ = [("", None, "A dog."), ("A cat.", None, " ...\n"), ("A bird.", "", "A fish."), ("4", None, "5")]
    assert found(*given_)["empty_text"] == ["a", "b", "c"]


ODD = [
    "Two men's don't-walk signs, 24/7 (3.14 % of 2024-05-01) ... they're 'quoted' and snake_case!",
    "Café Zürich, piñata & naïve ½ of a crème brûlée — “no”",
    "rock'n'roll o'clock y'all 'tis ''s a_b __",
    "北京 собака कुत्ता क़",
    "A &lt;b&gt; &amp;amp; &#39; tag &nLt;",
    "CafÃ© İstanbul ﬁne \x1b[31m red \ud800 ŉ",
    "😂😂😂😂😂😂😂😂",
    "an antidisestablishmentarianist xylorimba",
]


@pytest.mark.parametrize("text", ODD)
def test_a_text_is_too_long_where_open_clip_cuts_it(text):
    from open_clip.tokenizer import SimpleTokenizer

    tokenizer = SimpleTokenizer()
    one = len(tokenizer.encode(text))
    fit = (CLIP_TOKENS - 2) // one
    for times in {1, fit, fit + 1, 3 * fit}:
        many = " ".join([text] * times)
        uncut = tokenizer(many, context_length=10_000)[0]
        assert is_cut_by_clip(many) == ((uncut != 0).sum().item() > CLIP_TOKENS)


def test_texts_that_clip_cuts_are_found_by_the_tokenizer_where_words_do_not_tell():
    fits, cut = " ".join(["cat"] * 75), " ".join(["cat"] * 75) + "."
    rare = " ".join(["xylorimba"] * 40)
    assert found((fits, None, "A dog."), (cut, None, "A boy."), ("A cat.", None, rare)) == {
        "over_long_text": ["b", "c"]
    }


def test_short_captions_are_measured_without_importing_the_tokenizer():
    code = "import sys; from caramel.audit.defects import is_cut_by_clip as f; f('A cat, 2 dogs.'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_longer_captions_of_usual_words_are_measured_without_importing_the_tokenizer():
    text = "A man’s dog &amp; a café by the window, " * 4
    code = f"import sys; from caramel.audit.defects import is_cut_by_clip as f; print(f({text!r}), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_words_of_clips_vocabulary_are_one_token():
    from open_clip.tokenizer import SimpleTokenizer

    tokenizer, words = SimpleTokenizer(), load_clip_words()
    assert words == {
        token.removesuffix("</w>") for token in list(tokenizer.encoder)[512:] if token.endswith("</w>")
    }
    plain = sorted(word for word in words if re.fullmatch("[a-z]+", word))
    assert len(plain) > 30_000
    assert all(len(tokenizer.encode(word)) == 1 for word in plain[::10])


@pytest.mark.parametrize("text", ODD)
def test_texts_are_cleaned_as_open_clip_cleans_them(text):
    from open_clip.tokenizer import SimpleTokenizer

    assert " ".join(clean_for_clip(text).split()) == SimpleTokenizer().clean_fn(text)


def test_texts_near_the_limit_are_cut_where_the_tokenizer_says():
    from open_clip.tokenizer import SimpleTokenizer

    encode, draw = SimpleTokenizer().encode, random.Random(0)
    letters = [*map(chr, range(128))]
    parts = [
        *"'_&;<>-., ",
        "'s",
        "the",
        "dog",
        "xylorimba",
        "Ünder",
        "ſ",
        "&amp;",
        "<start_of_text>",
        "\x1b[0m",
    ]
    texts = ["".join(draw.choices(letters, k=draw.randrange(60, 100))) for _ in range(2000)]
    texts += ["".join(draw.choices(parts, k=draw.randrange(30, 90))) for _ in range(2000)]
    assert [is_cut_by_clip(text) for text in texts] == [len(encode(text)) > CLIP_TOKENS - 2 for text in texts]


def test_no_token_of_clip_is_longer_than_is_said():
    from open_clip.tokenizer import SimpleTokenizer

    assert max(len(token.removesuffix("</w>")) for token in SimpleTokenizer().encoder) == LONGEST_TOKEN


def test_a_word_of_a_million_letters_is_told_at_once():
    start = time.process_time()
    assert is_cut_by_clip("ab" * 500_000)
    assert not is_cut_by_clip("A “cat”" + " " * 1_000_000)
    assert time.process_time() - start < 30  # by the tokenizer alone it is hours


@pytest.mark.parametrize(
    "text",
    [
        "Un hombre monta una ola en una tabla de surf.",
        "Un homme à cheval sur la plage.",
        "Ein Mann reitet auf einem Pferd.",
        "Un uomo cavalca una tavola da surf.",
        "Um homem surfando uma onda no mar.",
        "Een man rijdt op een paard.",
        "Một người đàn ông đang cưỡi sóng",
        "Мужчина едет на лошади.",
        "一个男人骑着马",
        "رجل يركب حصانا",
        "एक आदमी घोड़े की सवारी करता है",
        "Ένας άντρας ιππεύει ένα άλογο",
        "A sign that says 北京烤鸭店欢迎您",
    ],
)
def test_other_languages_are_told_from_english(text):
    assert is_not_english(text)


@pytest.mark.parametrize(
    "text",
    [
        "Man riding horse beach",
        "Los Angeles skyline with a view of the Tour de France",
        "A piñata at a café in São Paulo",
        "Die cast toy van met by a man in a car park",
        "Café façade",
        "De la Rosa in El Paso, near the sea",
        "A π sign on the wall",
        "dog",
        "",
    ],
)
def test_english_with_foreign_names_is_english(text):
    assert not is_not_english(text)


@pytest.mark.parametrize(
    "original",
    [
        "café",
        "the dog’s ball",
        "“quoted” text",
        "a — b",
        "15 °C",
        "naïve",
        "привет",
        "Ελλάδα",
        "北京",
        "a 🐕 runs",
    ],
)
@pytest.mark.parametrize("wrong", ["cp1252", "latin-1"])
def test_utf8_that_was_read_as_something_else_is_damage(original, wrong):
    if wrong == "cp1252":  # as browsers do: the five bytes that it leaves open become control characters
        data = original.encode()
        read = "".join(
            bytes([b]).decode("cp1252") if b not in b"\x81\x8d\x8f\x90\x9d" else chr(b) for b in data
        )
    else:
        read = original.encode().decode("latin-1")
    assert is_damaged(f"A photo of {read} here")
    assert not is_damaged(f"A photo of {original} here")


@pytest.mark.parametrize(
    "text",
    ["a \ufffd b", "a\x00b", "a\x07", "a\x85b", "\ufeffA cat", "R&amp;B", "it&#39;s", "a&#x27;s", "x&nbsp;y"],
)
def test_signs_that_are_no_text_and_entities_are_damage(text):
    assert is_damaged(text)


@pytest.mark.parametrize(
    "text",
    [
        "A sign that says “CAFÉ”",
        "R&B & soul; 5",
        "AT&T;",
        "a\tb\n",
        "“É…”",
        "ÀÉÎ",
        "Straße”",
        "Ångström",
        "&notathing;",
        "Mañana – ça va",
    ],
)
def test_unusual_but_sound_text_is_no_damage(text):
    assert not is_damaged(text)


def test_text_defects_are_looked_for_in_all_three_texts():
    bad = "caf\u00c3\u00a9"
    assert found((bad, None, "A dog."), ("A cat.", bad, "A boy."), ("A fox.", None, bad)) == {
        "encoding_damage": ["a", "b", "c"]
    }


@pytest.mark.parametrize("empty", [None, float("nan")])
def test_rows_without_a_split_are_in_no_split(empty: object) -> None:
    texts = [(f"caption {n}", None, f"negative {n}") for n in range(3)]
    table = rows(*texts, images="xxx").assign(split=pd.array(["train", empty, empty], dtype=object))
    assert find_defects(table)["image_in_two_splits"] == []


def test_images_in_two_splits_are_found_with_all_their_rows():
    texts = [(f"A cat {n}.", None, f"A dog {n}.") for n in range(4)]
    table = rows(*texts, images="xyxz").assign(split=["train", "train", "test", "test"])
    assert find_defects(table)["image_in_two_splits"] == ["a", "c"]
    negatives = table.assign(image=list("XYXZ"), negative_image=[None, "Z", None, None])
    assert find_defects(negatives)["image_in_two_splits"] == ["a", "b", "c", "d"]
    assert find_defects(table.assign(split="test"))["image_in_two_splits"] == []


def test_the_table_is_not_changed():
    table = rows(("A cat.", None, "a cat"))
    before = table.copy(deep=True)
    find_defects(table)
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")
@pytest.mark.parametrize(
    ("name", "expected"),
    zip(PUBLIC, [[0, 0, 9, 571], [2, 3, 8, 542], [0, 0, 32, 2294]], strict=True),
)
def test_the_public_files_have_the_known_defects_and_give_no_false_alarm(name, expected):
    defects = find_defects(read_captions(Path(str(DATA)) / name))
    assert [len(defects[defect]) for defect in FOUR] == expected
    # All of these texts were written or checked by people, in English, and have 50 tokens at most.
    assert {defect: ids for defect, ids in defects.items() if defect not in FOUR and ids} == {}
