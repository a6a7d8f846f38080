import os
import re
import unicodedata
from pathlib import Path

import pytest

from caramel.sources.sugarcrepe_files import read_captions
from caramel.utils.text import is_of_word, same_words, split_words, tokens, words_only

BOY, GIRL = "एक लड़का लाल कुर्सी पर बैठा है", "एक लड़की लाल कुर्सी पर बैठी है"


def test_vowel_signs_belong_to_their_word() -> None:
    assert words_only(BOY) == tuple(unicodedata.normalize("NFC", BOY).split())
    assert same_words(BOY) != same_words(GIRL)
    assert words_only("ஒரு சிவப்பு கார்.") == ("ஒரு", "சிவப்பு", "கார்")  # Tamil
    assert words_only("می\u200cخواهم کتاب") == ("می\u200cخواهم", "کتاب")  # a joiner within a Persian word
    assert words_only("כֶּלֶב גָּדוֹל") == tuple(unicodedata.normalize("NFC", "כֶּלֶב גָּדוֹל").split())


@pytest.mark.parametrize(
    "text", ["un café à Orléans", "ein grüner Öltank", "São João", "Việt Nam", BOY, "한국어"]
)
def test_normal_forms_are_the_same_words(text: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert words_only(composed) == words_only(decomposed)
    assert same_words(composed) == same_words(decomposed)
    assert split_words(composed) == split_words(decomposed)


def test_marks_without_a_letter_are_no_word() -> None:
    assert words_only("\u0301 \u200d .") == ()
    assert words_only("a _b 'c-d' e’s") == ("a", "c-d", "e’s")


def test_a_mark_is_of_a_word_and_punctuation_is_not() -> None:
    assert all(map(is_of_word, ("ै", "a", "7")))
    assert not any(map(is_of_word, ("", ".", "।", " ")))


def test_words_of_the_public_captions_are_those_of_letters_and_digits() -> None:
    folder = os.environ.get("CARAMEL_DATA")
    if folder is None:
        pytest.skip("CARAMEL_DATA is not set")
    plain = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
    for name in ("sugarcrepe", "sugarcrepe_unrefined"):
        rows = read_captions(Path(folder, name))
        for text in (*rows["caption"], *rows["negative_caption"]):
            assert tokens(text) == plain.findall(text.lower()), text
