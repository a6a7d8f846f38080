"""Captions of graphs, where they name their atoms, and hard negatives that are false of the whole picture."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from caramel.crepe.caption_template import by_template, located, named
from caramel.crepe.foils import Told, atom_foils, negation_foils, swap_foils
from caramel.crepe.matching import holds
from caramel.crepe.subgraph_sampling import walk
from caramel.crepe.world_graphs import WorldWords, graph_of, picture, sample, told
from caramel.interfaces.scene_graph import Edge, Node, Place, SceneGraph

WORDS = WorldWords()
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
    assert named(text, word) == spans


def test_a_caption_is_by_the_published_template_and_says_where_its_atoms_are() -> None:
    caption = by_template(SAID)
    assert caption.text == "small and red car above blue box and a cup"
    assert {place: [caption.text[a:b] for a, b in spans] for place, spans in caption.spans.items()} == {
        place: [word] for place, word in SAID.places().items()
    }


def test_a_caption_that_is_given_must_name_all_atoms_each_at_a_place_of_its_own() -> None:
    found = located("There is an old cup; the small red car is above a box that is blue.", SAID)
    assert not isinstance(found, str)
    assert found.text[slice(*found.spans[Place("att", 1, 0)][0])] == "blue"
    assert located("a small car above a blue box and a cup", SAID) == "red"
    twice = SceneGraph((Node("car", ("red",)), Node("box", ("red",))))
    assert located("a red car and a box", twice) == "red"


def test_a_graph_holds_with_different_objects_for_what_is_said_and_negated_where_another_object_lacks_it() -> (
    None
):
    red, blue = Node("car", ("red",)), Node("car", ("blue",))
    assert holds(SceneGraph((red,)), SceneGraph((blue, red)), WORDS)
    assert not holds(SceneGraph((red, red)), SceneGraph((blue, red)), WORDS)
    assert not holds(SceneGraph((red,)), SceneGraph((red,)), WORDS, negated=Place("att", 0, 0))
    assert holds(SceneGraph((red,)), SceneGraph((blue, red)), WORDS, negated=Place("att", 0, 0))
    pair = SceneGraph((Node("car"), Node("box")), (Edge(0, ON, 1),))
    assert not holds(replace(pair, edges=(Edge(1, ON, 0),)), pair, WORDS)


def test_an_attribute_is_put_before_an_object_whose_name_has_no_letter() -> None:
    said = SceneGraph((Node("?"), Node("car", ("red",)), Node("box"), Node("cup")))
    assert "red ? and a car and a box and a cup" in swap_foils(Told(by_template(said), said, said), WORDS)


def naively(said: SceneGraph, shown: SceneGraph, negated: Place | None) -> bool:
    """Try all choices of objects, by the definition."""
    for chosen in itertools.permutations(range(len(shown.nodes)), len(said.nodes)):
        facts = {
            Place("obj", i): node.name == shown.nodes[j].name
            for i, (node, j) in enumerate(zip(said.nodes, chosen, strict=True))
        }
        for place, word in said.places().items():
            if place.kind == "att":
                facts[place] = word in shown.nodes[chosen[place.owner]].attributes
        for k, edge in enumerate(said.edges):
            facts[Place("rel", k)] = Edge(chosen[edge.subject], edge.name, chosen[edge.object]) in shown.edges
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
        for negated in (None, *said.places()):
            answers.append(holds(said, shown, WORDS, negated))
            assert answers[-1] == naively(said, shown, negated), (said, shown, negated)
    assert 0.1 < np.mean(answers) < 0.9


def test_a_picture_of_many_alike_objects_is_searched_in_no_time() -> None:
    names = "abcdefghijkl"
    nodes = tuple(Node(name) for name in names for _ in range(8))
    shown = SceneGraph(nodes, tuple(Edge(i, ON, j) for i in range(88) for j in range(i + 8, min(i + 16, 96))))
    chain = SceneGraph(tuple(map(Node, names)), tuple(Edge(i, ON, i + 1) for i in range(11)))
    assert holds(chain, shown, WORDS)
    assert not holds(replace(chain, edges=(*chain.edges, Edge(11, ON, 10))), shown, WORDS)
    assert not holds(SceneGraph((*chain.nodes, Node("z"))), shown, WORDS)


def test_of_four_atoms_any_number_may_change_places_and_of_more_only_two() -> None:
    four = SceneGraph(tuple(map(Node, ("car", "box", "cup"))), (Edge(0, ON, 1),))
    made = set(swap_foils(Told(by_template(four), four, four), WORDS))
    assert {"box above cup and a car", "cup above car and a box"} <= made
    assert len(made) == 5


def foils(whole: SceneGraph, kind: str) -> set[str]:
    made = {"atom": atom_foils, "swap": swap_foils, "negate": negation_foils}[kind]
    return set(made(Told(by_template(SAID), SAID, whole), WORDS))


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
    said = located("A small red car is above a blue box near which a cup stands.", SAID)
    assert not isinstance(said, str)
    assert set(negation_foils(Told(said, SAID, SAID), WORDS)) == {
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
        scene = sample(rng, 5)
        graph = graph_of(scene)
        found = walk(told(graph, rng), atoms, rng)
        assert found is not None
        assert len(found.places()) == atoms
        assert holds(found, graph, WORDS)
        assert len({node.name for node in found.nodes}) == len(found.nodes)
    assert picture(scene, rng).shape == (96, 96, 3)


def test_a_walk_that_runs_out_of_atoms_is_none() -> None:
    graph = SceneGraph((Node("car", ("red",)), Node("car", ("blue",))))
    assert walk(graph, 3, np.random.default_rng(0)) is None
    assert walk(SceneGraph(()), 1, np.random.default_rng(0)) is None
