"""Find defects in the texts of captions and hard negatives, without a model or a download."""

from __future__ import annotations

import functools
import gzip
import html
import importlib.util
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from html.entities import html5
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.utils.text import extract_words

Words = tuple[str, ...]
TEXTS = ("caption", "caption2", "negative_caption")
CLIP_TOKENS = 77  # CLIP's context length, including start and end (Radford et al. 2021)
LONGEST_TOKEN = 32  # bytes of the longest token in CLIP's vocabulary
CLIP_MERGES = 48_894  # of the merges in open_clip's file, the first are CLIP's
# Runs of lower-case letters that CLIP's tokenizer always takes as one word: not after an apostrophe, which may take
# the first letters, and not beside characters that may be letters to it, or `_`, as in its special tokens.
_WORD = re.compile(r"(?<![a-z'_\x80-\U0010ffff])[a-z]+(?![a-z_\x80-\U0010ffff])")
ARTICLES = frozenset(("a", "an", "the"))
# English function words that captions of any length have, and that are not words of the other languages.
ENGLISH = frozenset(
    re.findall(
        r"\w+",
        """
        the of and is are with at to for by from that this his her their its it on near while into over up down
        has have or next other there
        """,
    )
)
# Function words of Spanish, French, German, Italian, Portuguese and Dutch. Words that are also English words are left
# out (`die`, `van`, `met`, `son`, `pour`).
OTHER_LANGUAGES = frozenset(
    re.findall(
        r"\w+",
        """
        el la los las una unos unas del de que por para en está están muy sobre
        le les un une des du et est dans avec sur qui aux ce cette au
        der das den dem und ein eine einen einem einer mit auf ist sind von zu neben sich nicht
        il lo gli uno di che su sono della nella sul sulla alla è
        um uma os dos da na ao não são estão
        het een op zijn naast voor aan bij niet wordt
        """,
    )
)
_ENTITY = re.compile(r"&([a-zA-Z][a-zA-Z0-9]+;|#[0-9]+;|#[xX][0-9a-fA-F]+;)")
# U+FFFD replaces bytes that did not decode; control characters and byte-order marks are not printable characters.
_NO_SIGN = re.compile("[\ufffd\ufeff\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _build_char_class(first: int, last: int) -> str:
    """Return a regex class of the characters that these bytes become when read as Windows-1252 or Latin-1."""
    data = [bytes([byte]) for byte in range(first, last + 1)]
    signs = {byte.decode("latin-1") for byte in data} | {byte.decode("cp1252", "ignore") for byte in data}
    return f"[{re.escape(''.join(sorted(signs)))}]"


# What UTF-8 becomes when each byte is read as a character: `Ã©` for `é`, `â€™` for `’`. Bytes that begin characters
# of non-Latin scripts must occur twice in a row, because one alone may be intended, as in `CAFÉ”`.
_MORE = _build_char_class(0x80, 0xBF)
_MOJIBAKE = re.compile(
    f"[ÂÃ]{_MORE}|[âï]{_MORE}{{2}}|ð{_MORE}{{3}}|"
    f"(?:{_build_char_class(0xC4, 0xDF)}{_MORE}|{_build_char_class(0xE0, 0xEE)}{_MORE}{{2}}){{2}}"
)


def find_defects(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return the pair_ids of the rows with each defect, in the order of the rows.

    Texts are compared by their words in order; case, space and punctuation do not count.

    - ``negative_equals_caption``: the negative has the same words as the caption.
    - ``paraphrase_equals_caption``: the paraphrase has the same words as the caption.
    - ``duplicate_pair``: an earlier row has the same caption and negative, whatever its image.
    - ``word_order_only``: the negative has the caption's words in another order. This is right for a swap. In
      other types it shows that nothing was replaced or added.
    - ``paraphrase_equals_negative``: the same text is both true and false for the image.
    - ``contradictory_roles``: a true caption of the row is, up to articles, a negative in another row of the
      same image, or the other way round.
    - ``empty_text``: a text without words.
    - ``over_long_text``: a text that CLIP truncates; see ``is_cut_by_clip``.
    - ``not_english``: see ``is_not_english``.
    - ``encoding_damage``: see ``is_damaged``.
    - ``image_in_two_splits``: rows of another split also have the row's image or its negative image. Checked
      only if there is a column split.

    Args:
        rows: columns pair_id, image_id, caption, caption2 (or None) and negative_caption; optional columns
            image, negative_image, negative_image_id and split.
    """
    caption, negative = (rows[name].map(extract_words) for name in ("caption", "negative_caption"))
    paraphrase = rows["caption2"].map(lambda text: extract_words(text) if isinstance(text, str) else None)
    same_words = caption.map(sorted) == negative.map(sorted)
    masks = {
        "negative_equals_caption": caption == negative,
        "paraphrase_equals_caption": caption == paraphrase,
        "duplicate_pair": pd.DataFrame({"caption": caption, "negative": negative}).duplicated(),
        "word_order_only": same_words & (caption != negative),
        "paraphrase_equals_negative": negative == paraphrase,
        "contradictory_roles": _contradiction_mask(rows["image_id"], (caption, paraphrase), negative),
        "empty_text": _any_text_mask(rows, lambda text: not extract_words(text)),
        "over_long_text": _any_text_mask(rows, is_cut_by_clip),
        "not_english": _any_text_mask(rows, is_not_english),
        "encoding_damage": _any_text_mask(rows, is_damaged),
    }
    if "split" in rows.columns:
        masks["image_in_two_splits"] = _split_overlap_mask(rows)
    return {name: rows.loc[holds, "pair_id"].tolist() for name, holds in masks.items()}


def is_cut_by_clip(text: str) -> bool:
    """Return whether CLIP's tokenizer (open_clip's) gives more than ``CLIP_TOKENS`` tokens for a text.

    The tokenizer runs only if bounds do not decide. Importing it takes seconds, and a word of a million letters
    takes minutes.
    """
    room = CLIP_TOKENS - 2
    # A token is at least one byte. Cleaning may lengthen texts with non-ASCII characters or `&`.
    if text.isascii() and "&" not in text and len("".join(text.split())) <= room:
        return False
    cleaned = clean_for_clip(text)
    size = len("".join(cleaned.split()).encode())
    spared = sum(len(word) - 1 for word in _WORD.findall(cleaned) if word in load_clip_words())
    if size - spared <= room:
        return False
    return size > room * LONGEST_TOKEN or len(_load_clip_tokenizer().encode(text)) > room


def clean_for_clip(text: str) -> str:
    """Return a text as open_clip's tokenizer cleans it, except that white space stays as it is."""
    import ftfy  # open_clip requires it

    return html.unescape(html.unescape(ftfy.fix_text(text))).lower()


@functools.cache
def load_clip_words() -> frozenset[str]:
    """Return the words in CLIP's vocabulary, each one token, from open_clip's file without an import of open_clip."""
    spec = importlib.util.find_spec("open_clip")
    assert spec is not None
    assert spec.origin is not None
    data = Path(spec.origin).with_name("bpe_simple_vocab_16e6.txt.gz").read_bytes()
    merges = gzip.decompress(data).decode().split("\n")[1 : 1 + CLIP_MERGES]
    return frozenset(
        merge.replace(" ", "").removesuffix("</w>") for merge in merges if merge.endswith("</w>")
    )


@functools.cache
def _load_clip_tokenizer() -> Any:
    from open_clip.tokenizer import SimpleTokenizer

    return SimpleTokenizer()


def is_not_english(text: str) -> bool:
    """Return whether a text is probably in another language.

    One of two conditions must hold:

    - Three or more letters, and more than an eighth of all letters, are non-ASCII: another script, or many
      accents.
    - At least two words are function words of Spanish, French, German, Italian, Portuguese or Dutch, and they
      are more than twice as many as the English function words.

    Short texts without such words, and languages with almost no accents, are not told from English.
    """
    if not text.isascii():
        letters = [sign for sign in text if sign.isalpha()]
        foreign = sum(not sign.isascii() for sign in letters)
        if foreign >= 3 and 8 * foreign > len(letters):
            return True
    words = extract_words(text)
    others = sum(word in OTHER_LANGUAGES for word in words)
    return others >= 2 and others > 2 * sum(word in ENGLISH for word in words)


def is_damaged(text: str) -> bool:
    """Return whether a text has an encoding error.

    Encoding errors are:

    - UTF-8 read as Windows-1252 or Latin-1 (``Ã©``, ``â€™``)
    - the replacement character, control characters and byte-order marks
    - HTML entities that were not decoded (``&amp;``, ``&#39;``)
    """
    if not text.isascii() and _MOJIBAKE.search(text):
        return True
    if _NO_SIGN.search(text):
        return True
    return any(name.startswith("#") or name in html5 for name in _ENTITY.findall(text))


def _any_text_mask(rows: pd.DataFrame, holds: Callable[[str], bool]) -> pd.Series[bool]:
    """Return whether any text of a row has a property; equal texts are checked once."""
    given = [rows[name] for name in TEXTS]
    bad = {text for text in {*pd.concat(given)} if isinstance(text, str) and holds(text)}
    return pd.concat([column.isin(bad) for column in given], axis=1).any(axis=1)


def _contradiction_mask(
    images: pd.Series[str], true: Iterable[Iterable[Words | None]], false: Iterable[Words | None]
) -> pd.Series[bool]:
    """Return whether a text of a row is true in it and a negative in another row of the image, or the reverse."""
    roles: tuple[dict[object, set[int]], ...] = (defaultdict(set), defaultdict(set))
    for role, column in enumerate([false, *true]):
        for row, (image, words) in enumerate(zip(images, column, strict=True)):
            if words:
                key = image, tuple(word for word in words if word not in ARTICLES)
                roles[role > 0][key].add(row)
    bad: set[int] = set()
    for text in roles[0].keys() & roles[1].keys():
        # Both roles in the same row are another defect: the negative equals a true caption.
        negative, positive = roles[0][text], roles[1][text]
        bad |= {row for row in positive if negative - {row}} | {row for row in negative if positive - {row}}
    return pd.Series([row in bad for row in range(len(images))], index=images.index)


def _split_overlap_mask(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return whether an image of a row is in rows of several splits; rows without a split are in none."""
    names = ("image_id", "image", "negative_image_id", "negative_image")
    columns = [rows[name] for name in names if name in rows.columns]
    image_splits: dict[object, set[str]] = defaultdict(set)
    for column in columns:
        for image, split in zip(column, rows["split"], strict=True):
            if isinstance(image, str) and pd.notna(split):
                image_splits[image].add(split)
    crossing = {image for image, where in image_splits.items() if len(where) > 1}
    return pd.concat([column.isin(crossing) for column in columns], axis=1).any(axis=1)
