"""What a sequence-to-sequence model writes is read as the graph that it means."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from released import FACTUAL, released
from small_language_models import saved, seeded

from caramel.crepe.parsers import sequence_parser
from caramel.crepe.parsers.sequence_parser import TASK, read_graph
from caramel.errors import BackendError
from caramel.interfaces.scene_graph import Edge, Node, SceneGraph
from caramel.registry import GRAPH_PARSERS


@pytest.mark.parametrize(
    ("text", "graph"),
    [
        (
            "( man , on , horse ) , ( horse , is , brown )",
            SceneGraph((Node("man"), Node("horse", ("brown",))), (Edge(0, "on", 1),)),
        ),
        ("(Dog,is,wet),(dog , is , wet),( dog , is , old )", SceneGraph((Node("dog", ("wet", "old")),))),
        ("( fire hydrant )", SceneGraph((Node("fire hydrant"),))),
        ("( a , on ) ( , is , red ) ( a , b , c , d ) (", SceneGraph(())),
        ("( zebra , follow , zebra )", SceneGraph((Node("zebra"), Node("zebra")), (Edge(0, "follow", 1),))),
        (
            "( man , hit , man ) , ( man , is , old ) , ( man , with , bat )",
            SceneGraph(
                (Node("man", ("old",)), Node("bat"), Node("man")), (Edge(0, "hit", 2), Edge(0, "with", 1))
            ),
        ),
        ("( σκύλος , δίπλα , 🐕 )", SceneGraph((Node("σκύλος"), Node("🐕")), (Edge(0, "δίπλα", 1),))),
        ("A man on a horse.", SceneGraph(())),
        ("", SceneGraph(())),
    ],
)
def test_brackets_are_relations_attributes_and_objects_and_the_rest_is_left_out(
    text: str, graph: SceneGraph
) -> None:
    assert read_graph(text) == graph


WORDS = st.text("abcdefgh ", min_size=1, max_size=8).map(lambda t: " ".join(t.split())).filter(bool)
LOOKS = st.lists(WORDS, max_size=3, unique=True).map(tuple)


@st.composite
def graphs(draw: st.DrawFn) -> SceneGraph:
    """Graphs of things of different names, as the form can say them."""
    names = draw(st.lists(WORDS, max_size=4, unique=True))
    nodes = tuple(Node(name, draw(LOOKS)) for name in names)
    ends = st.integers(0, max(0, len(names) - 1))
    edges = draw(
        st.lists(st.builds(Edge, ends, WORDS.filter(lambda w: w != "is"), ends), max_size=4, unique=True)
    )
    return SceneGraph(nodes, tuple(e for e in edges if names and e.subject != e.object))


@given(graphs())
def test_a_graph_that_is_written_is_read_as_it_was(graph: SceneGraph) -> None:
    written = [f"( {node.name} )" for node in graph.nodes]
    written += [f"( {node.name} , is , {look} )" for node in graph.nodes for look in node.attributes]
    names = [node.name for node in graph.nodes]
    written += [f"( {names[e.subject]} , {e.name} , {names[e.object]} )" for e in graph.edges]
    assert read_graph(" , ".join(written)) == graph


@given(st.text("(), isab\n🐕"))
def test_any_text_is_a_graph_without_loops_whose_words_are_no_brackets(text: str) -> None:
    graph = read_graph(text)
    assert all(e.subject != e.object for e in graph.edges)
    assert all(word and not set("(),") & set(word) for word in graph.list_positions().values())


def test_the_model_of_a_folder_is_asked_with_its_task_and_what_it_writes_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    words = ["<pad>", "</s>", "<unk>", *TASK.split(), "dog", "(", ",", "is", "red", ")"]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    seeded()
    monkeypatch.setattr(sequence_parser, "MOST", 16)
    config = T5Config(
        vocab_size=len(words),
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
    )
    parse = GRAPH_PARSERS["seq2seq"].load(
        str(saved(tmp_path, T5ForConditionalGeneration(config), tokenizer)), frozenset()
    )
    texts = ["dog", "red dog " * 250, "σκυλί 🐕", ""]
    together, alone = parse(texts), [graph for text in texts for graph in parse([text])]
    assert [isinstance(graph, SceneGraph) for graph in together] == [True] * 4
    assert together == alone
    assert parse([]) == []


def test_what_is_no_folder_of_such_a_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    for target, said in (("nowhere", "give the folder"), (str(tmp_path), "seq2seq|cannot be loaded|not")):
        with pytest.raises(BackendError, match=said):
            GRAPH_PARSERS["seq2seq"].load(target, frozenset())


def test_the_graphs_of_factuals_test_split_are_read_whole() -> None:
    """Atoms and compounds are those of the brackets; 18 captions relate things of one name."""
    with released(FACTUAL, "data", "factual_sg", "random", "test.csv").open(newline="") as file:
        written = [row["scene_graph"] for row in csv.DictReader(file)]
    assert len(written) == 1508
    between_twins = 0
    for text in written:
        parts = [
            tuple(p.strip() for p in inner.split(",")) for inner in re.findall(r"\(([^()]*)\)", text.lower())
        ]
        atoms, compounds = set(), set()
        for subject, *rest in parts:
            atoms.add(("obj", subject))
            if rest:
                relation, other = rest
                atoms |= {("att", other)} if relation == "is" else {("rel", relation), ("obj", other)}
                compounds.add((other, subject) if relation == "is" else (subject, relation, other))
        graph = read_graph(text)
        assert graph.list_atoms() == atoms, text
        assert graph.list_compounds() == compounds, text
        between_twins += any(part[0] == part[2] for part in parts if len(part) == 3)
    assert between_twins == 18
