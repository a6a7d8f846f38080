import os
import re
import unicodedata
from pathlib import Path

import pytest

from caramel.sources.sugarcrepe_files import read_captions
from caramel.utils.text import extract_words, is_word_character, normalise_text, split_words, tokenize_text

BOY, GIRL = "एक लड़का लाल कुर्सी पर बैठा है", "एक लड़की लाल कुर्सी पर बैठी है"


def test_vowel_signs_belong_to_their_word() -> None:
    assert extract_words(BOY) == tuple(unicodedata.normalize("NFC", BOY).split())
    assert normalise_text(BOY) != normalise_text(GIRL)
    assert extract_words("ஒரு சிவப்பு கார்.") == ("ஒரு", "சிவப்பு", "கார்")  # Tamil
    assert extract_words("می\u200cخواهم کتاب") == ("می\u200cخواهم", "کتاب")  # a joiner within a Persian word
    assert extract_words("כֶּלֶב גָּדוֹל") == tuple(unicodedata.normalize("NFC", "כֶּלֶב גָּדוֹל").split())


@pytest.mark.parametrize(
    "text", ["un café à Orléans", "ein grüner Öltank", "São João", "Việt Nam", BOY, "한국어"]
)
def test_normal_forms_are_the_same_words(text: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert extract_words(composed) == extract_words(decomposed)
    assert normalise_text(composed) == normalise_text(decomposed)
    assert split_words(composed) == split_words(decomposed)


def test_marks_without_a_letter_are_no_word() -> None:
    assert extract_words("\u0301 \u200d .") == ()
    assert extract_words("a _b 'c-d' e’s") == ("a", "c-d", "e’s")


def test_a_mark_is_of_a_word_and_punctuation_is_not() -> None:
    assert all(map(is_word_character, ("ै", "a", "7")))
    assert not any(map(is_word_character, ("", ".", "।", " ")))


def test_words_of_the_public_captions_are_those_of_letters_and_digits() -> None:
    folder = os.environ.get("CARAMEL_DATA")
    if folder is None:
        pytest.skip("CARAMEL_DATA is not set")
    plain = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
    for name in ("sugarcrepe", "sugarcrepe_unrefined"):
        rows = read_captions(Path(folder, name))
        for text in (*rows["caption"], *rows["negative_caption"]):
            assert tokenize_text(text) == plain.findall(text.lower()), text
