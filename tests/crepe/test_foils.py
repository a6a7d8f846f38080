"""Captions of graphs, where they name their atoms, and hard negatives that are false of the whole picture."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from caramel.crepe.atom_foils import draw_atom_foils, generate_atom_foils
from caramel.crepe.caption_template import find_word_spans, locate_atoms, write_template_caption
from caramel.crepe.foils import CaptionedGraph, generate_negation_foils, generate_swap_foils
from caramel.crepe.matching import is_true_of_graph
from caramel.crepe.subgraph_sampling import sample_subgraph
from caramel.crepe.world_graphs import (
    WorldThesaurus,
    build_graph,
    draw_tiled_image,
    sample_grid_scene,
    select_pair_relations,
)
from caramel.interfaces.scene_graph import AtomType, Edge, GraphPosition, Node, SceneGraph
from caramel.registry import THESAURI

WORDS = WorldThesaurus()
ON = "above"
SAID = SceneGraph((Node("car", ("small", "red")), Node("box", ("blue",)), Node("cup")), (Edge(0, ON, 1),))


@pytest.mark.parametrize(
    ("text", "word", "spans"),
    [
        ("a Dog, two dogs and a dog", "dog", [(2, 5), (22, 25)]),
        ("एक लड़का और एक लड़की", "लड़क", []),  # the vowel signs that follow are of the words
        ("a cafe\u0301 table", "cafe", []),
        ("a cat_flap", "cat", []),
    ],
)
def test_a_word_is_named_where_it_stands_whole(text: str, word: str, spans: list[tuple[int, int]]) -> None:
    assert find_word_spans(text, word) == spans


def test_a_caption_is_by_the_published_template_and_says_where_its_atoms_are() -> None:
    caption = write_template_caption(SAID)
    assert caption.text == "small and red car above blue box and a cup"
    assert {place: [caption.text[a:b] for a, b in spans] for place, spans in caption.spans.items()} == {
        place: [word] for place, word in SAID.list_positions().items()
    }


def test_a_caption_that_is_given_must_name_all_atoms_each_at_a_place_of_its_own() -> None:
    found = locate_atoms("There is an old cup; the small red car is above a box that is blue.", SAID)
    assert not isinstance(found, str)
    assert found.text[slice(*found.spans[GraphPosition("att", 1, 0)][0])] == "blue"
    assert locate_atoms("a small car above a blue box and a cup", SAID) == "red"
    twice = SceneGraph((Node("car", ("red",)), Node("box", ("red",))))
    assert locate_atoms("a red car and a box", twice) == "red"


def test_a_graph_holds_with_different_objects_for_what_is_said_and_negated_where_another_object_lacks_it() -> (
    None
):
    red, blue = Node("car", ("red",)), Node("car", ("blue",))
    assert is_true_of_graph(SceneGraph((red,)), SceneGraph((blue, red)), WORDS)
    assert not is_true_of_graph(SceneGraph((red, red)), SceneGraph((blue, red)), WORDS)
    assert not is_true_of_graph(
        SceneGraph((red,)), SceneGraph((red,)), WORDS, negated=GraphPosition("att", 0, 0)
    )
    assert is_true_of_graph(
        SceneGraph((red,)), SceneGraph((blue, red)), WORDS, negated=GraphPosition("att", 0, 0)
    )
    pair = SceneGraph((Node("car"), Node("box")), (Edge(0, ON, 1),))
    assert not is_true_of_graph(replace(pair, edges=(Edge(1, ON, 0),)), pair, WORDS)


def test_an_attribute_is_put_before_an_object_whose_name_has_no_letter() -> None:
    said = SceneGraph((Node("?"), Node("car", ("red",)), Node("box"), Node("cup")))
    assert "red ? and a car and a box and a cup" in generate_swap_foils(
        CaptionedGraph(write_template_caption(said), said, said), WORDS
    )


def naively(said: SceneGraph, shown: SceneGraph, negated: GraphPosition | None) -> bool:
    """Try all choices of objects, by the definition."""
    for chosen in itertools.permutations(range(len(shown.nodes)), len(said.nodes)):
        facts = {
            GraphPosition("obj", i): node.name == shown.nodes[j].name
            for i, (node, j) in enumerate(zip(said.nodes, chosen, strict=True))
        }
        for place, word in said.list_positions().items():
            if place.atom_type == "att":
                facts[place] = word in shown.nodes[chosen[place.owner]].attributes
        for k, edge in enumerate(said.edges):
            facts[GraphPosition("rel", k)] = (
                Edge(chosen[edge.subject], edge.name, chosen[edge.object]) in shown.edges
            )
        if all(fact != (place == negated) for place, fact in facts.items()):
            return True
    return False


def random_graph(rng: np.random.Generator, objects: int, edges: int) -> SceneGraph:
    def word(known: str) -> str:
        return known[int(rng.integers(len(known)))]

    nodes = tuple(Node(word("ab"), (word("xyz"),) * int(rng.integers(2))) for _ in range(objects))
    ends = [rng.permutation(objects)[:2].tolist() for _ in range(edges)]
    return SceneGraph(nodes, tuple(dict.fromkeys(Edge(a, word("rs"), b) for a, b in ends)))


def test_what_holds_is_what_some_choice_of_objects_makes_true() -> None:
    answers = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        said, shown = random_graph(rng, 3, int(rng.integers(3))), random_graph(rng, 5, 8)
        for negated in (None, *said.list_positions()):
            answers.append(is_true_of_graph(said, shown, WORDS, negated))
            assert answers[-1] == naively(said, shown, negated), (said, shown, negated)
    assert 0.1 < np.mean(answers) < 0.9


def test_a_picture_of_many_alike_objects_is_searched_in_no_time() -> None:
    names = "abcdefghijkl"
    nodes = tuple(Node(name) for name in names for _ in range(8))
    shown = SceneGraph(nodes, tuple(Edge(i, ON, j) for i in range(88) for j in range(i + 8, min(i + 16, 96))))
    chain = SceneGraph(tuple(map(Node, names)), tuple(Edge(i, ON, i + 1) for i in range(11)))
    assert is_true_of_graph(chain, shown, WORDS)
    assert not is_true_of_graph(replace(chain, edges=(*chain.edges, Edge(11, ON, 10))), shown, WORDS)
    assert not is_true_of_graph(SceneGraph((*chain.nodes, Node("z"))), shown, WORDS)


def test_of_four_atoms_any_number_may_change_places_and_of_more_only_two() -> None:
    four = SceneGraph(tuple(map(Node, ("car", "box", "cup"))), (Edge(0, ON, 1),))
    made = set(generate_swap_foils(CaptionedGraph(write_template_caption(four), four, four), WORDS))
    assert {"box above cup and a car", "cup above car and a box"} <= made
    assert len(made) == 5


def foils(whole: SceneGraph, kind: str) -> set[str]:
    made = {"atom": generate_atom_foils, "swap": generate_swap_foils, "negate": generate_negation_foils}[kind]
    return set(made(CaptionedGraph(write_template_caption(SAID), SAID, whole), WORDS))


def test_each_kind_of_negative_is_one_change() -> None:
    assert {
        "small and red car above blue tree and a cup",
        "small and green car above blue box and a cup",
        "small and red car below blue box and a cup",
    } <= foils(SAID, "atom")
    assert foils(SAID, "swap") == {
        "small and red box above blue car and a cup",
        "small and red cup above blue box and a car",
        "small and red car above blue cup and a box",
        "blue and red car above small box and a cup",
        "small and blue car above red box and a cup",
        "red car above small and blue box and a cup",
        "red car above blue box and a small cup",
        "small car above red and blue box and a cup",
        "small car above blue box and a red cup",
        "blue and small and red car above box and a cup",
        "small and red car above box and a blue cup",
    }
    assert foils(SAID, "negate") == {
        "there is no small and red car above blue box and a cup",
        "no small and red car above blue box and a cup",
        "small and red car above no blue box and a cup",
        "small and red car above blue box and no cup",
        "red car that is not small above blue box and a cup",
        "small car that is not red above blue box and a cup",
        "small and red car above box that is not blue and a cup",
        "small and red car not above blue box and a cup",
    }


def test_a_sentence_is_negated_to_sentences() -> None:
    said = locate_atoms("A small red car is above a blue box near which a cup stands.", SAID)
    assert not isinstance(said, str)
    assert set(generate_negation_foils(CaptionedGraph(said, SAID, SAID), WORDS)) == {
        "It is not true that a small red car is above a blue box near which a cup stands.",
        "No small red car is above a blue box near which a cup stands.",
        "A small red car is above no blue box near which a cup stands.",
        "A small red car is above a blue box near which no cup stands.",
        "A red car that is not small is above a blue box near which a cup stands.",
        "A small car that is not red is above a blue box near which a cup stands.",
        "A small red car is above a box that is not blue near which a cup stands.",
        "A small red car is not above a blue box near which a cup stands.",
    }


def test_what_is_true_of_the_whole_picture_is_no_negative() -> None:
    whole = SceneGraph((*SAID.nodes, Node("car", ("small", "green"))), (*SAID.edges, Edge(3, ON, 1)))
    assert "small and green car above blue box and a cup" not in foils(whole, "atom")
    assert "small car that is not red above blue box and a cup" not in foils(whole, "negate")
    bare = replace(SAID, nodes=(*SAID.nodes, Node("box")), edges=(*SAID.edges, Edge(0, ON, 3)))
    assert "small and red car above box that is not blue and a cup" not in foils(bare, "negate")


@pytest.mark.parametrize("atoms", [1, 4, 7, 12])
def test_a_walk_has_just_so_many_atoms_true_of_the_picture_and_no_name_twice(atoms: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scene = sample_grid_scene(rng, 5)
        graph = build_graph(scene)
        found = sample_subgraph(select_pair_relations(graph, rng), atoms, rng)
        assert found is not None
        assert len(found.list_positions()) == atoms
        assert is_true_of_graph(found, graph, WORDS)
        assert len({node.name for node in found.nodes}) == len(found.nodes)
    assert draw_tiled_image(scene, rng).shape == (96, 96, 3)


def test_a_walk_that_runs_out_of_atoms_is_none() -> None:
    graph = SceneGraph((Node("car", ("red",)), Node("car", ("blue",))))
    assert sample_subgraph(graph, 3, np.random.default_rng(0)) is None
    assert sample_subgraph(SceneGraph(()), 1, np.random.default_rng(0)) is None


class ManyNouns:
    """A thesaurus with a hundred foils of a noun and one of a predicate; it counts what it is asked."""

    def __init__(self) -> None:
        self.checks = 0

    def list_foils(
        self,
        atom_type: AtomType,
        word: str,
        owners: tuple[str, ...] = (),
        relations: tuple[tuple[str, str, str], ...] = (),
    ) -> list[str]:
        return {"obj": [f"thing{i}" for i in range(100)], "rel": ["below"], "att": []}[atom_type]

    def is_more_general(self, atom_type: AtomType, general: str, special: str) -> bool:
        self.checks += 1
        return general == special


PAIR = SceneGraph((Node("car"), Node("box")), (Edge(0, ON, 1),))


def test_each_atom_has_the_same_chance_to_be_replaced_however_many_words_exclude_it() -> None:
    captioned = CaptionedGraph(write_template_caption(PAIR), PAIR, PAIR)
    first = [
        next(draw_atom_foils(captioned, ManyNouns(), np.random.default_rng(seed))) for seed in range(300)
    ]
    assert 70 < first.count("car below box") < 130  # a third of them, not one of 201


def test_drawing_checks_only_what_is_drawn_and_in_the_end_gives_all_foils() -> None:
    captioned, words = CaptionedGraph(write_template_caption(PAIR), PAIR, PAIR), ManyNouns()
    drawn = draw_atom_foils(captioned, words, np.random.default_rng(0))
    next(drawn)
    assert words.checks < 20
    assert sorted(drawn) != []
    again = draw_atom_foils(captioned, words, np.random.default_rng(0))
    assert sorted(again) == sorted(generate_atom_foils(captioned, words))


def test_a_noun_that_other_words_are_bound_to_is_not_replaced() -> None:
    def list_nouns(text: str, graph: SceneGraph) -> set[str]:
        caption = locate_atoms(text, graph)
        assert not isinstance(caption, str)
        foils = generate_atom_foils(CaptionedGraph(caption, graph, graph), ManyNouns())
        return {foil for foil in foils if "thing7" in foil.split()}

    statue = SceneGraph((Node("statue"), Node("horse")), (Edge(0, "of", 1),))
    assert list_nouns("a statue of a horse", statue) == {"a statue of a thing7"}
    man = SceneGraph((Node("man"), Node("teeth")), (Edge(0, "brushing", 1),))
    assert list_nouns("a man brushing his teeth", man) == {"a man brushing his thing7"}
    trucks = SceneGraph((Node("truck"), Node("trucks")), (Edge(0, "near", 1),))
    assert list_nouns("a truck near other trucks", trucks) == set()


def test_a_caption_in_capitals_stays_in_capitals() -> None:
    caption = locate_atoms("A CAR ABOVE A BOX", PAIR)
    assert not isinstance(caption, str)
    foils = list(generate_atom_foils(CaptionedGraph(caption, PAIR, PAIR), ManyNouns()))
    assert "A CAR BELOW A BOX" in foils


TWO_WINDOWS = SceneGraph(
    (Node("window", ("red",)), Node("window", ("blue", "large")), Node("car"), Node("bench")),
    (Edge(0, "above", 1), Edge(2, "next to", 0), Edge(1, "behind", 3)),
)


def test_two_objects_of_one_name_are_told_apart_and_no_foil_confuses_them() -> None:
    caption = write_template_caption(TWO_WINDOWS)
    assert caption.text == (
        "red window above another blue and large window and a car next to the first window and the second window "
        "behind bench"
    )
    words = THESAURI["lists"]("", None)
    captioned = CaptionedGraph(caption, TWO_WINDOWS, TWO_WINDOWS)
    foils = [
        *generate_atom_foils(captioned, words),
        *generate_swap_foils(captioned, words),
        *generate_negation_foils(captioned, words),
    ]
    assert len(foils) > 30
    assert all(text.count("window") == 4 and "another" in text for text in foils)


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("a red window, a large blue window, a car next to a bench above it, behind it", 6, 27),
        ("a large blue window is above a red window, a car next to a bench, behind it", 35, 13),
    ],
)
def test_each_of_two_objects_of_one_name_has_the_occurrence_after_its_attribute(
    text: str, first: int, second: int
) -> None:
    caption = locate_atoms(text, TWO_WINDOWS)
    assert not isinstance(caption, str)
    starts = [caption.spans[GraphPosition("obj", node)][0][0] for node in (0, 1)]
    assert starts == [first, second]


def test_a_text_with_one_of_two_objects_of_one_name_omits_the_other() -> None:
    assert locate_atoms("a red window, a car, a bench", TWO_WINDOWS) == "window"


@pytest.mark.parametrize(
    ("relation", "caption_relation"),
    [
        *((relation, relation) for relation in ("next to", "beside", "near", "close to", "by", "with")),
        ("standing next to", "standing next to"),
        ("parked near", "parked near"),
        ("above", "below"),
        ("under", "above"),
        ("sitting behind", "in front of"),
        ("to the left of", "to the right of"),
        ("left of", "to the right of"),
        ("beside", "near"),
    ],
)
def test_a_relation_is_true_of_its_objects_in_the_other_order_by_its_inverse(
    relation: str, caption_relation: str
) -> None:
    image = SceneGraph((Node("cup"), Node("plate")), (Edge(0, relation, 1),))
    mirrored = SceneGraph(image.nodes, (Edge(1, caption_relation, 0),))
    assert is_true_of_graph(mirrored, image, THESAURI["lists"]("", None))
    if caption_relation == relation:
        captioned = CaptionedGraph(write_template_caption(image), image, image)
        assert list(generate_swap_foils(captioned, THESAURI["lists"]("", None))) == []


@pytest.mark.parametrize(
    "relation", ["surrounded by", "pulled by", "behind", "above", "holding", "on", "playing with"]
)
def test_a_relation_with_a_direction_is_exchanged_to_a_negative(relation: str) -> None:
    image = SceneGraph((Node("cup"), Node("plate")), (Edge(0, relation, 1),))
    captioned = CaptionedGraph(write_template_caption(image), image, image)
    words = THESAURI["lists"]("", None)
    assert list(generate_swap_foils(captioned, words)) == [f"plate {relation} cup"]


def test_what_follows_from_another_relation_of_the_image_is_no_swap() -> None:
    whole = SceneGraph((Node("cup"), Node("shelf"), Node("book")), (Edge(0, "above", 1), Edge(2, "below", 1)))
    graph = SceneGraph((Node("shelf"), Node("cup"), Node("book")), (Edge(1, "above", 0),))
    captioned = CaptionedGraph(write_template_caption(graph), graph, whole)
    swaps = set(generate_swap_foils(captioned, THESAURI["lists"]("", None)))
    assert "shelf above book and a cup" not in swaps
    assert "shelf above cup and a book" in swaps
