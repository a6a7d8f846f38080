"""Parse captions into spaCy's dependency trees, for the syntactic part of SLS where no constituency trees are at hand.

dependency:MODEL   a spaCy model (package or folder), such as en_core_web_sm

These are not the constituency trees of the paper (Dumpala et al. 2024, D.1), and their similarities differ from its
values. The parsers of stanza and benepar give constituency trees; their models are downloads of their own. Write such
trees to a file for ``given:FILE``.

A word is a node with its dependency relation. Its children are, from left to right, the nodes of its dependents and,
in its own place, its tag.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from caramel.errors import BackendError, DataError
from caramel.interfaces.parser import Parse, Parser, Tree


def load_dependency_parser(target: str) -> Parser:
    """Return a parser of a spaCy model.

    Raises:
        BackendError: no model is named, or it cannot be loaded.
    """
    from caramel.sources.captions.spacy_models import load_spacy_model

    if not target:
        raise BackendError(
            "Parser 'dependency' needs a spaCy model: write dependency:MODEL, such as dependency:en_core_web_sm."
        )
    return functools.partial(parse_dependencies, load_spacy_model(target))


def parse_dependencies(model: Any, texts: Sequence[str]) -> list[Parse]:
    """Return the dependency trees of texts, one tree per sentence below a node ``ROOT``.

    Raises:
        DataError: a text has no word.
    """
    parses = []
    for text, document in zip(texts, model.pipe(texts), strict=True):
        parse = tuple(Tree("ROOT", (_build_tree(sentence.root),)) for sentence in document.sents)
        if not parse:
            raise DataError(f"The text {text!r} has no word, so it has no tree. Leave its row out.")
        parses.append(parse)
    return parses


def _build_tree(token: Any) -> Tree:
    leaf = Tree(token.tag_, word=token.text)
    children = (
        *(_build_tree(child) for child in token.lefts),
        leaf,
        *(_build_tree(child) for child in token.rights),
    )
    return Tree(token.dep_, children)
