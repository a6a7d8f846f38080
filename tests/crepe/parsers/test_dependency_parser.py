"""Rules over dependencies give the scene graph of a caption; the models are made here, and say what a trained one would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from real_models import SPACY

from caramel.crepe.parsers.dependency_parser import build_graph
from caramel.errors import BackendError
from caramel.interfaces.scene_graph import Atom, Edge, Node, SceneGraph
from caramel.registry import GRAPH_PARSERS

spacy = pytest.importorskip("spacy")

# caption -> its words as WORD/LEMMA/POS/DEP/HEAD, as en_core_web_sm labels them; the head by its place.
PARSED = {
    "A black and wet dog is on the grass .": "a/a/DET/det/4 black/black/ADJ/amod/4 and/and/CCONJ/cc/1 wet/wet/ADJ/conj/1 "
    "dog/dog/NOUN/nsubj/5 is/be/AUX/ROOT/5 on/on/ADP/prep/5 the/the/DET/det/8 grass/grass/NOUN/pobj/6 ././PUNCT/punct/5",
    "Two dogs chase a red fire hydrant": "two/two/NUM/nummod/1 dogs/dog/NOUN/nsubj/2 chase/chase/VERB/ROOT/2 "
    "a/a/DET/det/6 red/red/ADJ/amod/6 fire/fire/NOUN/compound/6 hydrant/hydrant/NOUN/dobj/2",
    "a car that is old in front of a bus": "a/a/DET/det/1 car/car/NOUN/ROOT/1 that/that/PRON/nsubj/3 is/be/AUX/relcl/1 "
    "old/old/ADJ/acomp/3 in/in/ADP/prep/1 front/front/NOUN/pobj/5 of/of/ADP/prep/6 a/a/DET/det/9 bus/bus/NOUN/pobj/7",
    "a man standing on a box next to a cup": "a/a/DET/det/1 man/man/NOUN/ROOT/1 standing/stand/VERB/acl/1 on/on/ADP/prep/2 "
    "a/a/DET/det/5 box/box/NOUN/pobj/3 next/next/ADV/advmod/5 to/to/ADP/prep/6 a/a/DET/det/9 cup/cup/NOUN/pobj/7",
    "A man sits on a bench and a dog lies on grass and eats hay": "a/a/DET/det/1 man/man/NOUN/nsubj/2 sits/sit/VERB/ROOT/2 "
    "on/on/ADP/prep/2 a/a/DET/det/5 bench/bench/NOUN/pobj/3 and/and/CCONJ/cc/2 a/a/DET/det/8 dog/dog/NOUN/nsubj/9 "
    "lies/lie/VERB/conj/2 on/on/ADP/prep/9 grass/grass/NOUN/pobj/10 and/and/CCONJ/cc/9 eats/eat/VERB/conj/9 hay/hay/NOUN/dobj/13",
    "a ball the boy kicks at the goal": "a/a/DET/det/1 ball/ball/NOUN/ROOT/1 the/the/DET/det/3 boy/boy/NOUN/nsubj/4 "
    "kicks/kick/VERB/relcl/1 at/at/ADP/prep/4 the/the/DET/det/7 goal/goal/NOUN/pobj/5",
    "a man standing on a box and a dog": "a/a/DET/det/1 man/man/NOUN/ROOT/1 standing/stand/VERB/acl/1 on/on/ADP/prep/2 "
    "a/a/DET/det/5 box/box/NOUN/pobj/3 and/and/CCONJ/cc/1 a/a/DET/det/8 dog/dog/NOUN/conj/1",
    "a man and a dog that sit on grass": "a/a/DET/det/1 man/man/NOUN/ROOT/1 and/and/CCONJ/cc/1 a/a/DET/det/4 "
    "dog/dog/NOUN/conj/1 that/that/PRON/nsubj/6 sit/sit/VERB/relcl/1 on/on/ADP/prep/6 grass/grass/NOUN/pobj/7",
    "σκυλί 🐕": "σκυλί/σκυλί/X/ROOT/0 🐕/🐕/SYM/dep/0",
}
GRAPHS = {
    "A black and wet dog is on the grass .": SceneGraph(
        (Node("dog", ("black", "wet")), Node("grass")), (Edge(0, "on", 1),)
    ),
    "Two dogs chase a red fire hydrant": SceneGraph(
        (Node("dog"), Node("fire hydrant", ("red",))), (Edge(0, "chase", 1),)
    ),
    "a car that is old in front of a bus": SceneGraph(
        (Node("car", ("old",)), Node("bus")), (Edge(0, "in front of", 1),)
    ),
    "a man standing on a box next to a cup": SceneGraph(
        (Node("man"), Node("box"), Node("cup")), (Edge(0, "standing on", 1), Edge(1, "next to", 2))
    ),
    "A man sits on a bench and a dog lies on grass and eats hay": SceneGraph(
        tuple(map(Node, ("man", "bench", "dog", "grass", "hay"))),
        (Edge(0, "sits on", 1), Edge(2, "lies on", 3), Edge(2, "eats", 4)),
    ),
    "a ball the boy kicks at the goal": SceneGraph(
        (Node("ball"), Node("boy"), Node("goal")), (Edge(1, "kicks at", 2),)
    ),
    "a man standing on a box and a dog": SceneGraph(
        (Node("man"), Node("box"), Node("dog")), (Edge(0, "standing on", 1),)
    ),
    "a man and a dog that sit on grass": SceneGraph(
        (Node("man"), Node("dog"), Node("grass")), (Edge(0, "sit on", 2), Edge(1, "sit on", 2))
    ),
    "σκυλί 🐕": SceneGraph(()),
}


def parsed(vocabulary: Any, text: str) -> Any:
    """Return a text as a model parses it; one that is not of the table has no noun."""
    from spacy.tokens import Doc

    rows = PARSED.get(text) or " ".join(f"{word}/{word}/X/dep/0" for word in text.split())
    words, lemmas, pos, deps, heads = zip(*(row.rsplit("/", 4) for row in rows.split()), strict=True)
    return Doc(
        vocabulary,
        words=list(words),
        lemmas=list(lemmas),
        pos=list(pos),
        deps=list(deps),
        heads=[int(head) for head in heads],
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a pipeline that parses the captions of the table."""
    from spacy.language import Language

    @Language.component("parses_of_a_table")
    def parse(doc: Any) -> Any:
        return parsed(doc.vocab, doc.text)

    pipeline = spacy.blank("en")
    pipeline.add_pipe("parses_of_a_table")
    folder = tmp_path_factory.mktemp("spacy") / "model"
    pipeline.to_disk(folder)
    return folder


def test_the_model_of_a_folder_gives_the_graphs_of_captions_in_their_order(model: Path) -> None:
    parse = GRAPH_PARSERS["spacy"].load(str(model), frozenset())
    assert parse(list(GRAPHS)) == list(GRAPHS.values())
    assert parse(["word", "many words " * 250]) == [SceneGraph(())] * 2


@pytest.mark.parametrize(
    ("atoms", "name"),
    [([], "standing on"), ([("rel", "on")], "on"), ([("rel", "stand on"), ("rel", "on")], "stand on")],
)
def test_of_the_forms_of_a_word_the_one_that_is_looked_for_is_taken(atoms: list[Atom], name: str) -> None:
    doc = parsed(spacy.blank("en").vocab, "a man standing on a box next to a cup")
    graph = build_graph(doc, frozenset(atoms))
    assert (graph.edges[0].name, len(graph.edges)) == (name, 2)


def test_a_model_that_is_missing_or_finds_no_dependencies_is_an_error_that_says_so(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "blank")
    (tmp_path / "empty").mkdir()
    for target, said in (
        ("no_such_model", "'no_such_model'"),
        (str(tmp_path / "empty"), "cannot be loaded"),
        (str(tmp_path / "blank"), "finds no dependencies, parts of speech, lemmas: it is empty"),
    ):
        with pytest.raises(BackendError, match=said):
            GRAPH_PARSERS["spacy"].load(target, frozenset())


@pytest.fixture(scope="module")
def real() -> Any:
    """A trained model of spaCy."""
    if not spacy.util.is_package(SPACY):
        pytest.skip(f"spaCy's {SPACY} is not installed: make dev")
    return spacy.load(SPACY)


@pytest.mark.parametrize(
    ("text", "graph"),
    [
        (
            "A red fire hydrant next to several snow covered cars.",
            SceneGraph(
                (Node("fire hydrant", ("red",)), Node("car", ("snow covered",))), (Edge(0, "next to", 1),)
            ),
        ),
        (
            "A giraffe standing up to a tree",
            SceneGraph((Node("giraffe"), Node("tree")), (Edge(0, "standing up to", 1),)),
        ),
        (
            "A MAN WITH GLASSES EATS A HOT DOG IN THE PARK",
            SceneGraph(
                tuple(map(Node, ("man", "glasses", "hot dog", "park"))),
                (Edge(0, "with", 1), Edge(0, "eats", 2), Edge(2, "in", 3)),
            ),
        ),
        (
            "A boy holding a kite while standing on a sidewalk.",
            SceneGraph(
                tuple(map(Node, ("boy", "kite", "sidewalk"))),
                (Edge(0, "holding", 1), Edge(0, "standing on", 2)),
            ),
        ),
    ],
)
def test_a_trained_model_keeps_names_attributes_and_predicates_whole(
    text: str, graph: SceneGraph, real: Any
) -> None:
    assert GRAPH_PARSERS["spacy"].load(SPACY, frozenset())([text]) == [graph]


def test_a_model_of_another_version_or_without_a_parser_is_an_error_that_says_so(
    real: Any, tmp_path: Path
) -> None:
    model = spacy.load(SPACY, exclude=["parser"])
    model.to_disk(tmp_path / "no_parser")
    with pytest.raises(BackendError, match=r"finds no dependencies: tok2vec, tagger.*such as en_core_web_sm"):
        GRAPH_PARSERS["spacy"].load(str(tmp_path / "no_parser"), frozenset())
    real.to_disk(tmp_path / "old")
    meta = tmp_path / "old" / "meta.json"
    told = json.loads(meta.read_text(encoding="utf-8")) | {"spacy_version": ">=3.2.0,<3.3.0"}
    meta.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(BackendError, match=r"was trained for spaCy >=3\.2\.0,<3\.3\.0, and .* is installed"):
        GRAPH_PARSERS["spacy"].load(str(tmp_path / "old"), frozenset())


def test_the_versions_that_decide_are_those_of_spacy_and_of_the_models_package() -> None:
    versions = GRAPH_PARSERS["spacy"].versions
    assert versions("numpy") == {"spacy": spacy.__version__, "numpy": numpy.__version__}
    assert [versions(target) for target in ("", "../..", "no_such_model")] == [versions("spacy")] * 3
