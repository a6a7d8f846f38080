"""What is one compound, how two foils of it are said, and what an earlier run leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from caramel.crepe.caption_template import locate_atoms, write_template_caption
from caramel.crepe.crops import CropRules
from caramel.crepe.example_files import Example, open_rejects, write_examples
from caramel.crepe.foils import CaptionedGraph
from caramel.crepe.systematicity import (
    MOST,
    UNSAID,
    draw_compound_foils,
    generate_compound_foils,
    is_compound,
    iter_region_examples,
)
from caramel.crepe.visual_genome_graphs import ImageGraph, Region
from caramel.crepe.wordlist_thesaurus import list_words
from caramel.errors import ConfigError, DataError
from caramel.interfaces.benchmark import Reject
from caramel.interfaces.scene_graph import AtomType, Edge, Node, SceneGraph, Thesaurus

CAR = SceneGraph((Node("car", ("red",)),))


@pytest.mark.parametrize(
    ("graph", "one"),
    [
        (CAR, True),
        (SceneGraph((Node("car"), Node("box")), (Edge(0, "on", 1),)), True),
        (SceneGraph((*CAR.nodes, Node("box"))), False),
        (SceneGraph((*CAR.nodes, Node("box")), (Edge(0, "on", 1),)), False),
        (SceneGraph((Node("car"), Node("box"), Node("cup")), (Edge(0, "on", 1),)), False),
        (SceneGraph((Node("car"),)), False),
    ],
)
def test_one_compound_is_that_and_no_loose_object_beside_it(graph: SceneGraph, one: bool) -> None:
    assert is_compound(graph) == one


@pytest.mark.parametrize(
    ("phrase", "why"),
    [
        ("a red car", None),
        ("car", UNSAID),
        ("κόκκινο αυτοκίνητο", UNSAID),
        ("🚗 🔴", UNSAID),
        ("a red 🚗 car", None),
        (f"a red car {'and more ' * 250}", None),
    ],
)
def test_a_description_is_kept_that_says_its_compound_whatever_else_it_says(
    phrase: str, why: str | None
) -> None:
    picture = ImageGraph("1", 800, 800, CAR, (Region((0, 0, 300, 300), phrase, CAR),))
    rejects: list[Reject] = []
    kept = [
        said.captioned.caption.text for said in iter_region_examples([picture], rejects.append, CropRules())
    ]
    assert kept == ([] if why else [phrase])
    assert [(reject.reason, reject.text) for reject in rejects] == ([(why, phrase)] if why else [])


class Words:
    """So many foils of every word."""

    def __init__(self, number: int) -> None:
        self._number = number

    def list_foils(
        self,
        atom_type: AtomType,
        word: str,
        owners: tuple[str, ...] = (),
        relations: tuple[tuple[str, str, str], ...] = (),
    ) -> list[str]:
        return [f"{atom_type}{i:03}" for i in range(self._number)]

    def is_more_general(self, atom_type: AtomType, general: str, special: str) -> bool:
        return general == special


def compounds(text: str, graph: SceneGraph, words: Thesaurus) -> list[str]:
    caption = locate_atoms(text, graph)
    assert not isinstance(caption, str)
    return list(
        generate_compound_foils(CaptionedGraph(caption, graph, graph), words, np.random.default_rng(0))
    )


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("red car", "att000 car and a red obj000"),
        ("A red car.", "An att000 car and a red obj000."),
        ("The red car", "The att000 car and the red obj000"),
        ("There is a red car!", "There is an att000 car and there is a red obj000!"),
    ],
)
def test_two_compounds_are_said_as_the_description_says_its_one(text: str, made: str) -> None:
    assert made in compounds(text, CAR, Words(1))


def test_of_many_pairs_of_foils_some_are_drawn_with_all_foils_among_them() -> None:
    made = compounds("red car", CAR, Words(40))
    assert len(made) == 2 * MOST
    first = [text.split()[1] for text in made[:MOST]]
    counts = [first.count(word) for word in sorted(set(first))]
    assert (len(counts), max(counts) < 40) == (40, True)


@pytest.mark.parametrize("number", [1, 3, 40])
def test_pairs_of_foils_that_are_drawn_are_all_that_there_are(number: int) -> None:
    caption = locate_atoms("red car", CAR)
    assert not isinstance(caption, str)
    drawn = list(
        draw_compound_foils(CaptionedGraph(caption, CAR, CAR), Words(number), np.random.default_rng(0))
    )
    assert len(drawn) == 2 * number**2
    assert set(drawn) >= set(compounds("red car", CAR, Words(number)))


def test_what_an_earlier_run_wrote_is_gone_where_there_is_nothing_now(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    example = Example("1", (0, 0, 9, 9), write_template_caption(CAR).text, {"hard_negs": ["blue car"]})
    assert write_examples(path, [example, example]) == 2
    assert path.read_text().splitlines()[0] == "image_id,x,y,width,height,caption,hard_negs"
    assert write_examples(path, []) == 0
    assert not path.exists()


def test_rejects_are_whole_also_after_an_error_and_those_before_stay_until_then(tmp_path: Path) -> None:
    path = tmp_path / "rejects.csv"
    path.write_text("before")

    def fail() -> None:
        with open_rejects(path) as (reject, counts):
            reject(Reject("here", "no use", "é"))
            assert (path.read_text(), counts["no use"]) == ("before", 1)
            raise DataError("nothing is left")

    with pytest.raises(DataError, match="nothing"):
        fail()
    assert path.read_text(encoding="utf-8").splitlines() == ["location,reason,text", "here,no use,é"]


def test_the_lists_take_no_target() -> None:
    with pytest.raises(ConfigError, match="'mine' is given: write lists"):
        list_words("mine")
