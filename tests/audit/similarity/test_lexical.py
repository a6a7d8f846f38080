import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from caramel.audit.similarity.lexical import compute_lexical_similarities, compute_quartiles, compute_sls
from caramel.audit.similarity.parses import MAX_DEPTH, load_parser, read_trees
from caramel.audit.similarity.tree_kernel import compute_tree_similarities
from caramel.audit.similarity.world_trees import TREES, parse_captions
from caramel.errors import BackendError, DataError
from caramel.interfaces.parser import Parse, Tree
from caramel.sources.sugarcrepe_files import read_captions
from caramel.sources.world.grammar import PATTERNS, Reading, get_pattern_key, realise_caption
from caramel.sources.world.scenes import RELATIONS, Meaning, Mention, Relation

# Table 9 of SugarCrepe++ (Dumpala et al. 2024): two sentences, lexical similarity.
PRINTED = [
    (
        "A living room with white furniture and a small wooden table.",
        "A living room without white furniture and a small wooden table.",
        0.95,
    ),
    (
        "Three adult zebras walk calmly along close together.",
        "Three adult horses walk calmly along close together.",
        0.91,
    ),
    (
        "A street light in front of a colorful train on a bridge.",
        "A colorful train is on a bridge with a street light in front of it.",
        0.28,
    ),
    (
        "A teddy bear is placed on a metallic sculpture.",
        "The metallic sculpture is positioned below the teddy bear.",
        0.24,
    ),
    (
        "A desk with two computer monitors, two mice, a cup and a keyboard on it.",
        "There are two computer monitors, two mice, a cup, and a keyboard on the desk.",
        0.76,
    ),
    (
        "A fire hydrant is decorated with an American flag design.",
        "The American flag design is adorned on the fire hydrant.",
        0.19,
    ),
    (
        "A table topped with apples, oranges and bananas.",
        "The table stands as a backdrop to a fruitful display, showing apples, oranges, and bananas arranged on top.",
        0.40,
    ),
    (
        "A white chair, books and shelves and a tv on in this room.",
        "In this room, there is a white chair, shelves, books, and a TV on.",
        0.27,
    ),
]
# The same table's syntactic similarity, with Penn Treebank trees of the sentences written by hand.
PRINTED_TREES = {
    1.00: (
        "(S (NP (DT A) (JJ teddy) (NN bear)) (VP (VBZ is) (VP (VBN placed) (PP (IN on)"
        " (NP (DT a) (JJ metallic) (NN sculpture))))) (. .))",
        "(S (NP (DT The) (JJ metallic) (NN sculpture)) (VP (VBZ is) (VP (VBN positioned) (PP (IN below)"
        " (NP (DT the) (JJ teddy) (NN bear))))) (. .))",
    ),
    0.96: (
        "(S (NP (DT A) (NN fire) (NN hydrant)) (VP (VBZ is) (VP (VBN decorated) (PP (IN with)"
        " (NP (DT an) (JJ American) (NN flag) (NN design))))) (. .))",
        "(S (NP (DT The) (JJ American) (NN flag) (NN design)) (VP (VBZ is) (VP (VBN adorned) (PP (IN on)"
        " (NP (DT the) (NN fire) (NN hydrant))))) (. .))",
    ),
    0.84: (
        "(NP (NP (DT A) (NN street) (NN light)) (PP (IN in) (NP (NP (NN front)) (PP (IN of)"
        " (NP (NP (DT a) (JJ colorful) (NN train)) (PP (IN on) (NP (DT a) (NN bridge))))))) (. .))",
        "(S (NP (DT A) (JJ colorful) (NN train)) (VP (VBZ is) (PP (IN on) (NP (DT a) (NN bridge)))"
        " (PP (IN with) (NP (NP (DT a) (NN street) (NN light)) (PP (IN in) (NP (NP (NN front))"
        " (PP (IN of) (NP (PRP it)))))))) (. .))",
    ),
}


def trees(text: str) -> Parse:
    return read_trees(text, "test")


def similarity(first: str, second: str) -> float:
    return float(compute_tree_similarities([trees(first)], [trees(second)])[0])


def nodes(tree: Tree) -> list[Tree]:
    return [tree, *(below for child in tree.children for below in nodes(child))]


def delta(x: Tree, y: Tree) -> float:
    if x.label != y.label:
        return 0.0
    product = 0.4
    for child in x.children:
        product *= 1 + sum(delta(child, other) for other in y.children)
    return product


def by_definition(x: Tree, y: Tree) -> float:
    def kernel(x: Tree, y: Tree) -> float:
        return sum(delta(a, b) for a in nodes(x) for b in nodes(y))

    return min(1.0, kernel(x, y) / math.sqrt(kernel(x, x) * kernel(y, y)))


def test_lexical_similarity_over_characters_gives_the_printed_values() -> None:
    first, second, printed = zip(*PRINTED, strict=True)
    found = compute_lexical_similarities(first, second, unit="characters")
    np.testing.assert_allclose(found, printed, atol=0.0101)  # two of them are not rounded to the nearest


def test_lexical_similarity_over_words_counts_words_and_neither_case_nor_punctuation() -> None:
    first = ["A cat sits.", "A red car", "a b c d", "Dog", "."]
    second = ["a CAT sits", "a car", "d a b c", "cat", "..."]
    found = compute_lexical_similarities(first, second, unit="words")
    np.testing.assert_allclose(found, [1, 2 / 3, 1 / 2, 0, 1])


@pytest.mark.parametrize("printed", PRINTED_TREES)
def test_syntactic_similarity_gives_the_printed_values(printed: float) -> None:
    assert similarity(*PRINTED_TREES[printed]) == pytest.approx(printed, abs=0.0051)


def test_the_kernel_is_its_definition(world: Any) -> None:
    captions = sorted({*world[1].negatives["negative_caption"], *world[0].pairs["caption"]})
    parses = parse_captions([captions[i] for i in np.random.default_rng(0).permutation(len(captions))[:24]])
    first = [x for x in parses for _ in parses]
    second = [y for _ in parses for y in parses]
    expected = [by_definition(x, y) for (x,), (y,) in zip(first, second, strict=True)]
    np.testing.assert_allclose(compute_tree_similarities(first, second), expected, rtol=1e-12)
    assert len(set(np.round(expected, 6))) > 100


def test_words_do_not_count_in_syntax_and_labels_do() -> None:
    assert similarity("(NP (DT a) (NN cat))", "(NP (DT the) (NN dog))") == 1
    assert similarity("(NP (DT a) (NN cat))", "(NP (DT a) (NNS cats))") < 1
    # ROOT over NP over DT and one other tag. Equal: Δ is 0.4 twice, then 0.4 · 1.4² = 0.784, then
    # 0.4 · 1.784. With one tag apart: 0.4, then 0.4 · 1.4 · 1 = 0.56, then 0.4 · 1.56.
    expected = (0.4 + 0.56 + 0.4 * 1.56) / (0.4 + 0.4 + 0.784 + 0.4 * 1.784)
    assert similarity("(NP (DT a) (NN cat))", "(NP (DT a) (NNS cats))") == pytest.approx(expected)


def test_sentences_are_matched_one_to_one_and_one_too_many_counts() -> None:
    one, other = "(NP (DT a) (NN cat))", "(S (NP (NNS dogs)) (VP (VBP bark)))"
    assert similarity(f"{one} {other}", f"{other} {one}") == pytest.approx(1)
    assert similarity(one, f"{other} {one}") == pytest.approx(1 / 2)


def test_a_tree_of_absurd_width_is_an_error_and_no_number() -> None:
    wide = f"(NP {'(NN x) ' * 400})"
    with pytest.raises(DataError, match="too many equal children"):
        similarity(wide, wide)


def test_parsers_names_for_the_root_are_one() -> None:
    bare = trees("(S (NP (NNS dogs)) (VP (VBP bark)))")
    for root in ("ROOT", "TOP", "S1", ""):
        assert trees(f"({root} (S (NP (NNS dogs)) (VP (VBP bark))))") == bare


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cat",
        "(NN cat",
        "(NN cat))",
        "()",
        "(NP)",
        "(NP (DT a) cat)",
        "(NP a cat)",
        "(NN cat (DT a))",
        "(NN cat) dog",
        "(NP " * (MAX_DEPTH + 1) + "x" + ")" * (MAX_DEPTH + 1),
    ],
)
def test_what_is_no_tree_is_an_error_that_names_the_place(text: str) -> None:
    with pytest.raises(DataError, match=r"'trees.txt', line 3: not a bracketed tree"):
        read_trees(text, "'trees.txt', line 3")


def every_caption() -> list[Reading]:
    mentions = (Mention("ball", "orange"), Mention("box", None, "small"), Mention("car", "red", "large"))
    found = []
    for (objects, relations), patterns in PATTERNS.items():
        for kinds in (("left", "above"), ("right", "below"), ("above", "left"), ("below", "right")):
            stated = (Relation(0, kinds[0], 1), Relation(2, kinds[1], 1))[:relations]
            meaning = Meaning(mentions[:objects], stated)
            if not relations:
                positions = ("left", "top", None) if kinds[0] in RELATIONS[:2] else ("bottom", None, "right")
                placed = zip(meaning.mentions, positions, strict=False)
                meaning = replace(meaning, mentions=tuple(replace(m, position=p) for m, p in placed))
            assert get_pattern_key(meaning) == (objects, relations)
            for pattern in range(len(patterns)):
                said = Reading(meaning, pattern)
                tails = (replace(said, added=Mention("boat", "orange")), replace(said, alone=True))
                found += [said, *tails]
    return found


def test_the_leaves_of_a_world_tree_are_the_caption() -> None:
    assert {key: len(found) for key, found in TREES.items()} == {k: len(p) for k, p in PATTERNS.items()}
    captions = [realise_caption(said) for said in every_caption()]
    for caption, (tree,) in zip(captions, parse_captions(captions), strict=True):
        spaced = caption.lower().replace(",", " ,").replace(".", " .")
        assert tree.list_words() == spaced.split()


def test_a_text_that_is_not_of_the_world_is_an_error() -> None:
    with pytest.raises(DataError, match=r"not captions of the embedded world .*: 1\):\n  - 'A man rides.'"):
        parse_captions(["A red car.", "A man rides."])


def test_trees_of_a_file_are_found_by_their_words_in_any_order(tmp_path: Path) -> None:
    file = tmp_path / "trees.txt"
    lines = [
        "(ROOT (S (NP (DT The) (NN dog)) (VP (MD ca) (RB n't) (VP (VB see))) (. .)))",
        "",
        "(ROOT (NP (DT A) (`` ``) (JJ big) ('' '') (NN cat) (-LRB- -LRB-) (JJ black) (-RRB- -RRB-) (. .)))",
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    look_up = load_parser(f"given:{file}")
    found = look_up(["A “big” cat (black).", "the dog can't see.", "The dog can’t see."])
    assert found == [trees(lines[2]), trees(lines[0]), trees(lines[0])]
    with pytest.raises(
        DataError, match=r"lacks the trees of some texts \(number of texts: 1\):\n  - 'The dog can see.'"
    ):
        look_up(["The dog can see."])
    file.write_text(f"{lines[0]}\n{lines[0].replace('MD', 'VB')}", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: the same text has another tree in an earlier line"):
        load_parser(f"given:{file}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("given", "needs a file"),
        ("world:x", "takes no target"),
        ("stanford", "Unknown parser backend 'stanford'.* Choices: world, given"),
    ],
)
def test_a_parser_that_cannot_be_is_an_error(spec: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        load_parser(spec)


ROWS = pd.DataFrame(
    {
        "pair_id": ["a", "b"],
        "subtype": ["replace_att", "swap_obj"],
        "caption": ["A red car and a ball.", "A box is above a boat."],
        "caption2": ["There is a red car and a ball.", None],
        "negative_caption": ["A blue car and a ball.", "A boat is above a box."],
    }
)


def test_sls_is_the_product_for_every_pair_of_texts_that_there_is() -> None:
    found = compute_sls(ROWS, parser=load_parser("world")).set_index(["pair_id", "pair"])
    assert list(found.index) == [("a", "P1-P2"), ("a", "P1-N"), ("b", "P1-N"), ("a", "P2-N")]
    assert found.loc[("a", "P1-N"), ["lexical", "syntactic", "sls"]].tolist() == [0.833333, 1, 0.833333]
    assert found.loc[("b", "P1-N"), ["lexical", "syntactic", "sls"]].tolist() == [0.666667, 1, 0.666667]
    assert 0 < found.loc[("a", "P1-P2"), "sls"] < found.loc[("a", "P1-P2"), "lexical"]
    np.testing.assert_allclose(found["sls"], found["lexical"] * found["syntactic"], atol=2e-6)


def test_each_distinct_text_is_parsed_once() -> None:
    asked: list[str] = []

    def counting(texts: Any) -> list[Parse]:
        asked.extend(texts)
        return parse_captions(texts)

    compute_sls(pd.concat([ROWS, ROWS.assign(pair_id=["c", "d"])]), parser=counting)
    assert sorted(asked) == sorted({*ROWS["caption"], *ROWS["negative_caption"], ROWS["caption2"][0]})


def test_without_a_parser_the_lexical_part_stands_and_the_rest_is_missing() -> None:
    found = compute_sls(ROWS)
    assert found["lexical"].between(0, 1).all()
    assert found[["syntactic", "sls"]].isna().all(axis=None)


def test_the_order_of_the_rows_changes_nothing() -> None:
    found, turned = (compute_sls(rows).sort_values(["pair_id", "pair"]) for rows in (ROWS, ROWS[::-1]))
    pd.testing.assert_frame_equal(found.reset_index(drop=True), turned.reset_index(drop=True))


def test_the_world_has_the_order_that_was_published(world: Any) -> None:
    source, written = world
    rows = written.negatives.merge(source.pairs, on="pair_id").merge(written.paraphrases, on="pair_id")
    found = compute_quartiles(compute_sls(rows, parser=load_parser("world")), "sls")
    assert found.loc["P1-P2", "high"] < found.loc["P1-N", "low"]
    assert found.loc["P2-N", "median"] < found.loc["P1-P2", "median"]


@pytest.mark.skipif("CARAMEL_DATA" not in os.environ, reason="CARAMEL_DATA names no folder of public files")
def test_negatives_of_sugarcrepe_pp_are_closer_to_the_caption_than_paraphrases() -> None:
    rows = read_captions(Path(os.environ["CARAMEL_DATA"]) / "sugarcrepe_pp")
    found = compute_quartiles(compute_sls(rows), "lexical")
    assert found["n"].tolist() == [4757, 4757, 4757]
    assert found.loc["P1-P2", "high"] < found.loc["P1-N", "low"]
    assert found.loc["P1-N", "median"] == pytest.approx(0.833333, abs=1e-5)
