"""Compute statistics of a set of captions, paraphrases and negatives: counts, lengths, words, topics, similarity.

These are the statistics of SugarCrepe++ (Dumpala et al. 2024, table 1, figures 6 and 12), for any set. Topics
are the super-categories of COCO's objects in the word lists. A text has each topic whose nouns it names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd

from caramel.audit.coco_categories import CATEGORIES, Category, find_categories
from caramel.audit.similarity.lexical import compute_sls
from caramel.interfaces.parser import Parser
from caramel.sources.captions.tokenization import scan_words
from caramel.sources.captions.word_classes import WORD_CLASSES, WordClass, assign_word_classes
from caramel.sources.captions.words import NOUNS
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.text import extract_words

COLUMNS = ("subtype", "text", "about", "name", "value")
SIDES = {"caption": "P1", "caption2": "P2", "negative_caption": "N"}
ALL, NO_TOPIC = "all", "none of these"
ROWS, LENGTH, SPEECH, TOPIC, NOUN = "rows", "words", "part of speech", "topic", "noun"
SUPERCATEGORY, LEXICAL_CHARACTERS = "super-category", "lexical over characters"
SHARES = {"low": 0.25, "median": 0.5, "high": 0.75}  # quantiles
BOX = {"least": 0.05, **SHARES, "most": 0.95}  # quantiles of a box plot: whiskers, box and median
MOST = 10  # number of nouns that are listed
LOOKED_AT = 50_000  # maximum number of rows whose texts are analysed; larger sets are sampled
# Nouns that are not in the word lists because other words there name the same objects.
WIDER = dict.fromkeys(("person", "persons", "people", "crowd"), "person")
WIDER |= dict.fromkeys(("child", "children", "kid", "kids", "baby"), "child")
Line = tuple[str, str, str, str, float]
Name = TypeVar("Name", bound=Hashable)


class TextFacts(NamedTuple):
    """Statistics of one text."""

    words: int
    classes: Counter[WordClass]
    topics: frozenset[str]
    nouns: frozenset[str]
    categories: frozenset[Category]


def compute_set_statistics(rows: pd.DataFrame, parser: Parser | None = None) -> pd.DataFrame:
    """Return the statistics with ``COLUMNS``, for each subtype and for all rows.

    ``text`` names the text or pair of texts, ``about`` the group of the figure, and ``name`` the figure:

    rows             number of rows, of distinct images and of distinct texts; "looked at": number of rows that all
                     figures below cover
    words            number of words of a text: mean, quartiles and maximum
    part of speech   share of the words in [0, 1]; see ``word_classes``
    topic            share of the texts in [0, 1] that name a noun of the group; a text may have several topics
    noun             share of the texts that name this noun, for the most frequent nouns
    thing, stuff     share of the texts that name a category of COCO, for each category that occurs; see
                     ``coco_categories``
    super-category   the same for COCO's super-categories
    lexical …        quantiles (``BOX``) of the similarity of two texts, such as P1-N: lexical over words and over
                     characters, and with a parser syntactic and sls. sls has the lexical similarity over characters,
                     which gives the published values

    Args:
        rows: columns pair_id, image_id, subtype, caption, caption2 (or None) and negative_caption.
        parser: parser for the syntactic similarity.

    Raises:
        DataError: the parser has no parse for a text.
    """
    looked_at = sample_rows(rows)
    texts = {text for side in SIDES for text in looked_at[side].dropna()}
    facts = {text: extract_facts(text) for text in sorted(texts)}
    similar = compute_sls(looked_at, parser=parser, unit="characters").rename(
        columns={"lexical": LEXICAL_CHARACTERS}
    )
    similar["lexical"] = compute_sls(looked_at)["lexical"]
    lines: list[Line] = []
    for subtype in dict.fromkeys((*rows["subtype"], ALL)):
        subset_rows = rows if subtype == ALL else rows[rows["subtype"] == subtype]
        lines += [
            (subtype, "", ROWS, "rows", len(subset_rows)),
            (subtype, "", ROWS, "images", subset_rows["image_id"].nunique()),
        ]
        sampled_rows = looked_at if subtype == ALL else looked_at[looked_at["subtype"] == subtype]
        lines.append((subtype, "", ROWS, "looked at", len(sampled_rows)))
        for side, name in SIDES.items():
            side_texts = sampled_rows[side].dropna().tolist()
            if side_texts:
                lines += [
                    (subtype, name, *line) for line in _summarise_texts([facts[text] for text in side_texts])
                ]
                lines.append((subtype, name, ROWS, "texts", subset_rows[side].nunique()))
        similarities = similar if subtype == ALL else similar[similar["subtype"] == subtype]
        lines += [(subtype, *line) for line in _summarise_similarities(similarities)]
    return pd.DataFrame(lines, columns=list(COLUMNS))


def sample_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose texts are analysed: all, or a sample of ``LOOKED_AT``."""
    if len(rows) <= LOOKED_AT:
        return rows
    return rows.iloc[np.sort(np.argsort(compute_stable_keys(rows["pair_id"], 0))[:LOOKED_AT])]


def extract_facts(text: str) -> TextFacts:
    """Return the statistics of a text."""
    words = extract_words(text)
    classes = assign_word_classes(words)
    nouns = frozenset(w for w, c in zip(words, classes, strict=True) if c == "noun")
    topics = {match.group for match in scan_words(text) if match.word_type == "noun"}
    topics |= {WIDER[noun] for noun in nouns if noun in WIDER}
    return TextFacts(len(words), Counter(classes), frozenset(topics), nouns, find_categories(text))


def _summarise_texts(facts: Sequence[TextFacts]) -> Iterator[tuple[str, str, float]]:
    """Yield (about, name, value) for at least one text."""
    lengths = np.array([fact.words for fact in facts])
    yield LENGTH, "mean", float(lengths.mean())
    for name, share in SHARES.items():
        yield LENGTH, name, float(np.quantile(lengths, share))
    yield LENGTH, "most", float(lengths.max())
    classes: Counter[WordClass] = Counter()
    for fact in facts:
        classes.update(fact.classes)
    for word_class in WORD_CLASSES:
        yield SPEECH, word_class, classes[word_class] / max(1, lengths.sum())
    topics = _compute_shares(fact.topics or {NO_TOPIC} for fact in facts)
    for topic in (*NOUNS, NO_TOPIC):
        yield TOPIC, topic, topics.get(topic, 0.0)
    for category_type in CATEGORIES:
        categories = _compute_shares(
            {c.name for c in fact.categories if c.category_type == category_type} for fact in facts
        )
        for name in sorted(categories, key=lambda n: (-categories[n], n)):
            yield category_type, name, categories[name]
    supercategories = _compute_shares(
        {(c.category_type, c.supercategory) for c in fact.categories} for fact in facts
    )
    for category_type, groups in CATEGORIES.items():
        for group in groups:
            yield SUPERCATEGORY, f"{category_type}: {group}", supercategories.get((category_type, group), 0.0)
    nouns = _compute_shares(fact.nouns for fact in facts)
    for noun in sorted(nouns, key=lambda n: (-nouns[n], n))[:MOST]:
        yield NOUN, noun, nouns[noun]


def _compute_shares(names_by_text: Iterable[Iterable[Name]]) -> dict[Name, float]:
    """Return name -> share of the texts with this name."""
    of_texts = list(names_by_text)
    counts = Counter(name for names in of_texts for name in names)
    return {name: number / len(of_texts) for name, number in counts.items()}


def _summarise_similarities(similar: pd.DataFrame) -> Iterator[tuple[str, str, str, float]]:
    """Yield (pair of texts, measure, name of the quantile, value)."""
    for pair, of_pair in similar.groupby("pair", sort=False):
        for measure in ("lexical", LEXICAL_CHARACTERS, "syntactic", "sls"):
            values = of_pair[measure].dropna()
            if len(values):
                for name, value in zip(BOX, values.quantile(list(BOX.values())), strict=True):
                    yield str(pair), measure, name, float(value)
