"""Build the cases of a metamorphic audit from images with captions: true and false details, and paraphrases.

A case is a caption, a detail that is true of its image, one that is false, and a paraphrase. A file may give the
details and paraphrases itself, such as where scene graphs are known. Otherwise they come from the captions:

- A true detail is what another caption of the same image says.
- A false detail is what a caption of another image says, in words of which this image's captions have none (sentences).
  With a parser it is the true detail with its last noun replaced by one that no caption of the image has and that
  the file uses with the same attribute or relation (half-truths, as in CS-CLIP, arXiv 2602.23906).
- A paraphrase is "An image of …" before the same caption.

Captions do not say all that an image shows. So a false detail may be true by chance, more often with a parser.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from caramel.errors import DataError
from caramel.interfaces.scene_graph import Compound, GraphParser, SceneGraph
from caramel.io.readers import iter_csv_rows, iter_json_lines
from caramel.io.validators import read_name_field, read_text_field
from caramel.sources.captions.words import DETERMINERS, FUNCTION_WORDS, PREPOSITIONS, choose_article
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.text import extract_words

GIVEN, SENTENCE, ATTRIBUTE, RELATION = "given", "sentence", "attribute", "relation"
TRIES = 100  # sentences that are drawn as false details of one caption
DETAILS = ("true_detail", "false_detail")
LITTLE = DETERMINERS | FUNCTION_WORDS | PREPOSITIONS | {"there", "it", "be", "as", "up", "down"}


class CaptionRow(NamedTuple):
    """A caption of an image; details and a paraphrase if the file gives them."""

    image: str
    caption: str
    true_detail: str | None = None
    false_detail: str | None = None
    paraphrase: str | None = None


class Case(NamedTuple):
    """A caption with its details.

    Attributes:
        image: name of the image file.
        detail_type: given, sentence, attribute or relation.
        caption: text that is true of the image.
        with_true: the caption with a true detail.
        with_false: the caption with a false detail.
        paraphrase: the caption in other words; None: there is none.
        paraphrase_with_false: the paraphrase with the same false detail.
    """

    image: str
    detail_type: str
    caption: str
    with_true: str
    with_false: str
    paraphrase: str | None
    paraphrase_with_false: str | None


def read_caption_rows(path: Path) -> list[CaptionRow]:
    """Return the rows of a .csv or .jsonl file: filename and caption, and true_detail, false_detail and paraphrase if given.

    Raises:
        DataError: the file has another ending, is broken or empty, or a row has only one of the two details.
    """
    if path.suffix not in (".csv", ".jsonl"):
        raise DataError(
            f"{str(path)!r} is neither .csv nor .jsonl. Write a row per caption: filename, caption."
        )
    read: Iterator[tuple[str, Any]] = iter_csv_rows(path) if path.suffix == ".csv" else iter_json_lines(path)
    rows = []
    for where, values in read:
        if not isinstance(values, dict):
            raise DataError(f"{where}: not an object with the fields filename and caption.")
        optional = {n: read_text_field(values, n, where) for n in (*DETAILS, "paraphrase") if values.get(n)}
        if len({*DETAILS} & {*optional}) == 1:
            raise DataError(
                f"{where}: has only one of the fields true_detail and false_detail. Give both or none."
            )
        names = read_name_field(values, "filename", where), read_text_field(values, "caption", where)
        rows.append(CaptionRow(*names, **optional))
    if not rows:
        raise DataError(f"{str(path)!r} has no caption.")
    return rows


def build_cases(
    rows: Sequence[CaptionRow], *, parse: GraphParser | None, seed: int
) -> tuple[list[Case], dict[str, int]]:
    """Return a case of each caption for which details are found, and reason -> number of those without.

    Args:
        rows: captions of all images.
        parse: parser that finds the details; None: whole sentences.
        seed: each draw depends only on this, the image and the caption.
    """
    captions: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        captions[row.image].append(row.caption)
    finder = _SentenceDetails(captions) if parse is None else _GraphDetails(captions, parse)
    cases = []
    reasons: Counter[str] = Counter()
    for row in dict.fromkeys(rows):
        rng = np.random.default_rng(int(compute_stable_keys([f"{row.image} {row.caption}"], seed)[0]))
        details: tuple[str, str, str] | str
        if row.true_detail is not None and row.false_detail is not None:
            details = GIVEN, row.true_detail, row.false_detail
        else:
            details = finder.find_details(row, rng)
        if isinstance(details, str):
            reasons[details] += 1
        else:
            cases.append(_build_case(row, *details))
    return cases, dict(reasons)


def append_detail(caption: str, detail: str) -> str:
    """Return the caption with a detail: another sentence if it begins with a capital, otherwise the same one."""
    start = caption.rstrip(" .!")
    return f"{start}. {detail.rstrip(' .!')}." if detail[:1].isupper() else f"{start} {detail.rstrip(' .!')}."


def _build_case(row: CaptionRow, detail_type: str, true: str, false: str) -> Case:
    first = row.caption.partition(" ")[0].lower()
    default = f"An image of {row.caption[0].lower()}{row.caption[1:]}" if first in DETERMINERS else None
    paraphrase = row.paraphrase or default
    return Case(
        row.image,
        detail_type,
        row.caption,
        append_detail(row.caption, true),
        append_detail(row.caption, false),
        paraphrase,
        append_detail(paraphrase, false) if paraphrase else None,
    )


def _list_content(text: str) -> frozenset[str]:
    """Return the words of a text that name or describe something."""
    return frozenset(extract_words(text.lower())) - LITTLE


class _SentenceDetails:
    """Finds details that are whole captions."""

    def __init__(self, captions: Mapping[str, Sequence[str]]) -> None:
        self._captions = captions
        self._all = [(image, text) for image, texts in captions.items() for text in texts]
        self._content = {text: _list_content(text) for _, text in self._all}

    def find_details(self, row: CaptionRow, rng: np.random.Generator) -> tuple[str, str, str] | str:
        """Return the type, a true and a false detail; or the reason why there are none."""
        texts = self._captions[row.image]
        others = [text for text in texts if self._content[text] - self._content[row.caption]]
        if not others:
            return "no other caption of the image says more"
        true = others[int(rng.integers(len(others)))]
        words = frozenset[str]().union(*(self._content[text] for text in texts))
        for number in rng.integers(len(self._all), size=TRIES).tolist():
            image, false = self._all[number]
            if image != row.image and self._content[false] and not self._content[false] & words:
                return SENTENCE, _capitalise(true), _capitalise(false)
        return "every drawn caption of another image shares a word"


class _GraphDetails:
    """Finds details that are one compound of a caption's scene graph."""

    def __init__(self, captions: Mapping[str, Sequence[str]], parse: GraphParser) -> None:
        texts = list(dict.fromkeys(itertools.chain.from_iterable(captions.values())))
        graphs: Mapping[str, SceneGraph] = dict(zip(texts, parse(texts), strict=True))
        self._compounds = {text: graph.list_compounds() for text, graph in graphs.items()}
        self._captions = captions
        nouns: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for compound in itertools.chain.from_iterable(self._compounds.values()):
            nouns[compound[:-1][-1:]].add(compound[-1])  # by the attribute or the relation
        self._nouns = {words: sorted(of) for words, of in nouns.items()}

    def find_details(self, row: CaptionRow, rng: np.random.Generator) -> tuple[str, str, str] | str:
        """Return the type, a true and a false detail; or the reason why there are none."""
        texts = self._captions[row.image]
        stated = frozenset[Compound]().union(*(self._compounds[text] for text in texts))
        # The parser's nouns are singular, and the captions' may be plural.
        words = frozenset[str]().union(*map(_list_content, [*texts, *(" ".join(c) for c in stated)]))
        known = _list_content(row.caption)
        new = sorted(c for c in stated if not known.issuperset(extract_words(c[-1])))
        if not new:
            return "no other caption of the image has a compound with a new noun"
        for number in rng.permutation(len(new)).tolist():
            compound = new[number]
            nouns = [n for n in self._nouns[compound[:-1][-1:]] if words.isdisjoint(extract_words(n))]
            if nouns:
                false = (*compound[:-1], nouns[int(rng.integers(len(nouns)))])
                detail_type = ATTRIBUTE if len(compound) == 2 else RELATION
                return detail_type, _format_compound(compound), _format_compound(false)
        return "no noun of other images fits"


def _format_compound(compound: Compound) -> str:
    """Return "and a red car", or "and a man on a horse"."""
    if len(compound) == 2:
        return f"and {choose_article(compound[0])} {compound[0]} {compound[1]}"
    subject, relation, other = compound
    return f"and {choose_article(subject)} {subject} {relation} {choose_article(other)} {other}"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
