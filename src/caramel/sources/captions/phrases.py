"""Compare and inflect short phrases that name a thing, an attribute or a relation.

The word lists give synonyms and groups of the words that they know; endings tell the number of other nouns.
"""

from __future__ import annotations

from collections.abc import Iterator

from caramel.sources.captions import words
from caramel.sources.captions.tokenization import WordMatch, list_plurals, scan_words
from caramel.utils.text import build_word_pattern, extract_words

ARTICLES = frozenset(("a", "an", "the"))
IRREGULAR = {
    **{plural: singular for singular, plural in words.PLURALS.items() if singular != plural},
    **{"people": "person", "children": "child", "teeth": "tooth", "feet": "foot", "mice": "mouse"},
    **{f"{word}s": word for word in ("cookie", "movie", "brownie", "hoodie", "veggie", "zombie", "calorie")},
}
# Nouns in -s of one form; the first have a plural's verb.
PLURAL = frozenset(
    (
        "jeans",
        "pants",
        "shorts",
        "glasses",
        "sunglasses",
        "scissors",
        "skis",
        "clothes",
        "binoculars",
        "goggles",
    )
)
SINGULAR = frozenset(
    ("bus", "gas", "tennis", "lens", "cactus", "canvas", "this", "christmas", "news", "walrus")
)
# Nouns that take no article "a" and have no plural.
MASS = frozenset(
    (
        *(
            "water",
            "snow",
            "sand",
            "grass",
            "mud",
            "ice",
            "rain",
            "dirt",
            "smoke",
            "fire",
            "rice",
            "bread",
            "food",
        ),
        *(
            "fruit",
            "meat",
            "cheese",
            "butter",
            "milk",
            "coffee",
            "tea",
            "wine",
            "beer",
            "juice",
            "soup",
            "sugar",
        ),
        *(
            "lettuce",
            "corn",
            "pasta",
            "spaghetti",
            "wood",
            "metal",
            "plastic",
            "paper",
            "furniture",
            "cattle",
        ),
        *("luggage", "equipment", "clothing", "jewelry", "traffic", "hair", "fabric", "steel", "broccoli"),
    )
)


def find_head(phrase: str) -> WordMatch | None:
    """Return the last word of a phrase, or of its part before "of"; None if the word lists do not know it."""
    for text in (phrase, phrase.partition(" of ")[0]):
        matches = scan_words(f"{text} item")  # an attribute is only known before another word
        if matches and matches[-1].end == len(text):
            return matches[-1]
    return None


def canonicalise_phrase(phrase: str) -> tuple[str, ...]:
    """Return the words of a phrase in lower case, without articles, in one form for synonyms and both numbers."""
    phrase = phrase.lower()
    for match in reversed(scan_words(f"{phrase} item")):
        phrase = f"{phrase[: match.start]}{match.word}{phrase[match.end :]}"
    return tuple(get_singular(word) for word in extract_words(phrase) if word not in ARTICLES)


def is_implied(old: str, new: str) -> bool:
    """Return whether a phrase says what another one says, or less, as far as the word lists know.

    It does if it has the same head, is a synonym, or names the group of the other: "dog" implies "brown dog"'s
    head, "puppy" and "animal".
    """
    first, second = canonicalise_phrase(old), canonicalise_phrase(new)
    if not first or not second:
        return True
    heads = find_head(old), find_head(new)
    if heads[0] and heads[0].word_type == "relation":
        contraries = [words.CONTRARY.get(" ".join(one)) for one in (first, second)]
        action = first[0].endswith("ing")  # running and jumping have one contrary
        return first == second or (
            not action and contraries[0] is not None and contraries[0] == contraries[1]
        )
    return first[-1] == second[-1] or (heads[0] is not None and heads[0].group == " ".join(second))


def is_plural(phrase: str) -> bool:
    """Return whether the last word of a phrase is a plural, by the word lists and its ending."""
    word = (extract_words(phrase.partition(" of ")[0]) or [""])[-1]
    if word in IRREGULAR or word in PLURAL or word in list_plurals() or _is_men(word):
        return True
    return word.endswith("s") and not word.endswith(("ss", "us", "is")) and word not in SINGULAR


def _is_men(word: str) -> bool:
    return word.endswith("men") and word not in words.NOT_MEN


def get_singular(word: str) -> str:
    """Return the singular of a noun, by the word lists and its ending; a word of another form stays."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if word in PLURAL or not is_plural(word):
        return word
    if _is_men(word):
        return f"{word[:-3]}man"
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    stems = word.endswith(("sses", "xes", "ches", "shes")) or word[:-2] in SINGULAR
    return word[:-2] if stems else word[:-1]


def match_number(phrase: str, plural: bool) -> str:
    """Return a phrase with its last word in the given number; mass nouns and those of one form stay."""
    start, space, last = phrase.rpartition(" ")
    if last in MASS or last in PLURAL or is_plural(last) == plural:
        return phrase
    if not plural:
        return f"{start}{space}{get_singular(last)}"
    irregular = {singular: form for form, singular in IRREGULAR.items()}
    return f"{start}{space}{irregular.get(last) or words.get_plural(last)}"


def strip_determiner(phrase: str) -> str:
    """Return a phrase without its determiner: "a man" and "his man" give "man"; "one of the men" stays."""
    first, _, rest = phrase.strip().partition(" ")
    return rest if first.lower() in words.DETERMINERS and not rest.startswith("of ") else phrase


def iter_spans(caption: str, phrase: str) -> Iterator[tuple[int, int]]:
    """Yield where a phrase occurs in a caption; case, spaces and punctuation may differ."""
    wanted = [word.lower() for word in build_word_pattern(phrase).findall(phrase)]
    tokens = list(build_word_pattern(caption).finditer(caption))
    for first in range(len(tokens) - len(wanted) + 1 if wanted else 0):
        window = tokens[first : first + len(wanted)]
        if [token.group().lower() for token in window] == wanted:
            yield window[0].start(), window[-1].end()
