"""spaCy's dependency trees as the syntactic part of SLS."""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from real_models import SPACY

from caramel.audit.similarity.lexical import compute_quartiles, compute_sls
from caramel.audit.similarity.parses import load_parser
from caramel.audit.similarity.tree_kernel import compute_tree_similarities
from caramel.errors import BackendError, DataError
from caramel.sources.sugarcrepe_files import read_captions

needs_spacy = pytest.mark.skipif(not find_spec(SPACY), reason=f"the spaCy model {SPACY} is missing")


@needs_spacy
def test_a_word_is_a_node_of_its_relation_with_its_dependents_around_its_tag() -> None:
    (parse,) = load_parser(f"dependency:{SPACY}")(["A small cat sits on the table."])
    (tree,) = parse
    assert tree.label == "ROOT"
    assert tree.list_words() == ["A", "small", "cat", "sits", "on", "the", "table", "."]
    (verb,) = tree.children
    assert [child.label for child in verb.children] == ["nsubj", "VBZ", "prep", "punct"]
    subject = verb.children[0]
    assert [child.label for child in subject.children] == ["det", "amod", "NN"]


@needs_spacy
def test_equal_structures_are_alike_and_others_less() -> None:
    texts = [
        "A small cat sits on the table.",
        "The black dog lies under a bench.",
        "There are tables with cats.",
    ]
    first, same, other = load_parser(f"dependency:{SPACY}")(texts)
    alike, less = compute_tree_similarities([first, first], [same, other])
    assert alike == pytest.approx(1.0)
    assert less < 0.5


@needs_spacy
def test_two_sentences_are_two_trees_and_an_empty_text_is_an_error() -> None:
    parser = load_parser(f"dependency:{SPACY}")
    (parse,) = parser(["A cat sits on a mat. Two dogs run along the road."])
    assert len(parse) == 2
    with pytest.raises(DataError, match="'' has no word"):
        parser([""])


def test_a_parser_without_a_model_says_how_to_name_one() -> None:
    with pytest.raises(BackendError, match="write dependency:MODEL"):
        load_parser("dependency")


@needs_spacy
@pytest.mark.skipif("CARAMEL_DATA" not in os.environ, reason="CARAMEL_DATA names no folder of public files")
def test_the_released_paraphrases_differ_more_than_the_negatives_do() -> None:
    """Figure 6: P1-P2 between 0.2 and 0.4 for the most part, P1-N above 0.75, with constituency trees."""
    rows = read_captions(Path(os.environ["CARAMEL_DATA"]) / "sugarcrepe_pp")
    rows = rows[rows["subtype"] == "swap_obj"].head(60)
    sls = compute_sls(rows, parser=load_parser(f"dependency:{SPACY}"), unit="characters")
    np.testing.assert_allclose(sls["sls"], sls["lexical"] * sls["syntactic"], atol=2e-6)
    medians = compute_quartiles(sls, "sls")["median"]
    assert medians["P1-P2"] < 0.4
    assert medians["P1-N"] > 2 * medians["P1-P2"]
