"""Every demonstration of a prompt obeys the rules that the prompt states."""

from __future__ import annotations

import json

import pytest

from caramel.crepe.caption_template import Caption, locate_atoms
from caramel.crepe.llm_captions import format_graph
from caramel.interfaces.scene_graph import Edge, Node, SceneGraph
from caramel.sources.captions.llm.changes import Change, normalise_words
from caramel.sources.captions.llm.checks import Bounds, evaluate_negative, evaluate_paraphrase
from caramel.sources.captions.llm.response_parser import parse_answer
from caramel.sources.captions.prompts.prompt_files import (
    LEAST,
    Example,
    FailedAnswer,
    compute_prompt_version,
    format_answer,
    format_failed_answer,
    list_prompt_names,
    load_prompt,
)
from caramel.sources.captions.tokenization import scan_words

BOUNDS = Bounds(
    max_length_ratio=2.0,
    max_similarity=0.999,
    max_extra_edits=1,
    min_overlap=0.3,
    entailment_threshold=0.5,
    grammar_threshold=0.5,
)
NEGATIVE = (
    "statement",
    "complete",
    "single_sentence",
    "not_copy",
    "one_change",
    "edit_location",
    "subtype",
    "novel_word",
)
PARAPHRASE = ("statement", "complete", "single_sentence", "not_copy", "overlap")
EXAMPLES = [(name, example) for name in list_prompt_names() for example in load_prompt(name).examples]
MOST_WORDS = {"obj": 3, "att": 2, "rel": 4}


def examples(*prefixes: str) -> list[tuple[str, Example]]:
    return [(name, example) for name, example in EXAMPLES if name.startswith(prefixes)]


def holds(text: str, phrase: str) -> bool:
    return f" {' '.join(normalise_words(phrase))} " in f" {' '.join(normalise_words(text))} "


def test_there_is_a_prompt_for_each_step_and_subtype() -> None:
    steps = [
        f"{s}_{step}"
        for s in ("replace_obj", "replace_att", "replace_rel", "add_obj", "add_att")
        for step in ("propose", "compose")
    ]
    rest = ["find_obj", "find_att", "find_rel", "swap_obj", "swap_att", "paraphrase", "say_graph"]
    rest.append("choose_change")
    assert list_prompt_names() == sorted([*steps, *rest, "validate_paraphrase", "validate_negative"])


@pytest.mark.parametrize("name", list_prompt_names())
def test_a_prompt_has_enough_examples_all_different_and_rules(name: str) -> None:
    given = [tuple(example.given.values()) for example in load_prompt(name).examples]
    assert len(set(given)) == len(given) >= LEAST
    assert len(load_prompt(name).rules) >= 2
    assert all(rule.endswith(".") for rule in load_prompt(name).rules)


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_an_example_has_the_fields_of_its_prompt_and_is_read_as_it_is_written(
    name: str, example: Example
) -> None:
    asked = load_prompt(name)
    assert list(example.given) == asked.given
    assert list(example.answer) == list(asked.answer)
    assert parse_answer(format_answer(example.answer), asked.answer) == example.answer


@pytest.mark.parametrize(("name", "example"), examples("find_"))
def test_what_is_found_stands_in_the_caption_once_and_without_article(name: str, example: Example) -> None:
    found = next(iter(example.answer.values()))
    assert all(phrase in example.given["sentence"] for phrase in found)
    assert len(set(found)) == len(found)
    assert not any(normalise_words(phrase)[0] in ("a", "the") for phrase in found)


@pytest.mark.parametrize("name", ["find_obj", "find_att", "find_rel"])
def test_a_prompt_that_looks_for_something_shows_a_caption_without(name: str) -> None:
    assert any(not next(iter(example.answer.values())) for example in load_prompt(name).examples)


@pytest.mark.parametrize(("name", "example"), [e for e in EXAMPLES if e[0].endswith("_propose")])
def test_what_is_proposed_is_new_short_and_without_article(name: str, example: Example) -> None:
    new, words = str(example.answer["new"]), normalise_words(str(example.answer["new"]))
    assert not holds(example.given["sentence"], new)
    assert len(words) <= MOST_WORDS[name.split("_")[1]]
    assert words[0] not in ("a", "the")
    concept = next(value for key, value in example.given.items() if key != "sentence")
    assert holds(example.given["sentence"], concept)


@pytest.mark.parametrize(("name", "example"), [e for e in EXAMPLES if e[0].endswith("_compose")])
def test_what_is_composed_passes_all_checks(name: str, example: Example) -> None:
    given, text = example.given, str(example.answer["sentence"])
    concept = next(value for key, value in given.items() if key not in ("sentence", "new"))
    change = Change(name.removesuffix("_compose"), concept, given["new"])
    said = frozenset(normalise_words(given["sentence"]))
    assert (
        evaluate_negative(given["sentence"], text, change, said, BOUNDS).find_failed_check(NEGATIVE) is None
    )
    assert holds(text, given["new"])
    if name.startswith("replace"):
        assert not holds(text, concept)
    assert " a a" not in text
    assert not any(text.lower().startswith(f"a {v}") or f" a {v}" in text.lower() for v in "aeio")


@pytest.mark.parametrize(("name", "example"), examples("swap_"))
def test_what_is_swapped_passes_all_checks_and_what_cannot_be_is_empty(name: str, example: Example) -> None:
    answer = example.answer
    if answer["possible"] == "no":
        assert {answer["first"], answer["second"], answer["sentence"]} == {""}
        return
    change = Change(name, str(answer["first"]), str(answer["second"]))
    verdict = evaluate_negative(
        example.given["sentence"], str(answer["sentence"]), change, frozenset(), BOUNDS
    )
    assert verdict.find_failed_check(NEGATIVE) is None


@pytest.mark.parametrize(("name", "example"), examples("choose_change"))
def test_a_choice_is_an_option_or_none_and_options_name_what_the_caption_has(
    name: str, example: Example
) -> None:
    options = [option.partition(". ") for option in example.given["options"].split("  ")]
    assert [number for number, _, _ in options] == [str(i) for i in range(1, len(options) + 1)]
    assert 0 <= int(str(example.answer["choice"])) <= len(options)
    assert all(
        holds(example.given["sentence"], shown.split(" ->")[0].split(" <->")[0].split(" +")[0])
        for *_, shown in options
    )


@pytest.mark.parametrize("name", ["swap_obj", "swap_att", "validate_paraphrase", "validate_negative"])
def test_a_prompt_that_asks_yes_or_no_shows_both(name: str) -> None:
    field = next(iter(load_prompt(name).answer))
    assert {example.answer[field] for example in load_prompt(name).examples} == {"yes", "no"}


@pytest.mark.parametrize(("name", "example"), examples("paraphrase"))
def test_a_paraphrase_passes_all_checks(name: str, example: Example) -> None:
    verdict = evaluate_paraphrase(example.given["sentence"], str(example.answer["sentence"]), BOUNDS)
    assert verdict.find_failed_check(PARAPHRASE) is None


@pytest.mark.parametrize(("name", "example"), examples("say_graph"))
def test_what_is_said_of_a_graph_says_all_of_it_and_no_noun_more(name: str, example: Example) -> None:
    text = str(example.answer["sentence"])
    graph = graph_listed(example.given["objects"], example.given["relations"])
    assert isinstance(locate_atoms(text, graph), Caption)
    assert {f.word for f in scan_words(text) if f.word_type == "noun"} <= {
        node.name for node in graph.nodes
    } | {"couch"}
    assert not any(f" a {v}" in text.lower() for v in "aeio")


def graph_listed(objects: str, relations: str) -> SceneGraph:
    """Return the graph that the prompt's list says."""
    things = [thing.partition(" (") for thing in objects.split("; ")]
    nodes = tuple(
        Node(noun.rstrip("123"), tuple(filter(None, looks.removesuffix(")").split(", "))))
        for noun, _, looks in things
    )
    names = [noun for noun, _, _ in things]
    found = [
        (a, b, r)
        for r in relations.split("; ")
        for a in names
        for b in names
        if r.startswith(f"{a} ") and r.endswith(f" {b}")
    ]
    edges = (Edge(names.index(a), r[len(a) + 1 : -len(b) - 1], names.index(b)) for a, b, r in found)
    return SceneGraph(nodes, tuple(edges))


def test_examples_of_graphs_are_of_every_complexity_that_no_template_says() -> None:
    graphs = [graph_listed(e.given["objects"], e.given["relations"]) for _, e in examples("say_graph")]
    assert [len(graph.list_positions()) for graph in graphs] == [n for n in range(5, 13) for _ in range(5)]
    assert [e.atoms for _, e in examples("say_graph")] == [len(graph.list_positions()) for graph in graphs]
    shown = [load_prompt(f"say_graph/{n}").examples for n in range(5, 13)]
    assert [e for part in shown for e in part] == [e for _, e in examples("say_graph")]
    assert [format_graph(graph) for graph in graphs] == [dict(e.given) for _, e in examples("say_graph")]


def test_the_validators_problems_are_those_that_its_rules_name() -> None:
    problems = {(e.answer["same"], e.answer["problem"]) for e in load_prompt("validate_paraphrase").examples}
    assert problems == {("yes", "none"), ("no", "spatial"), ("no", "hallucination"), ("no", "meaning")}


def test_messages_are_task_examples_what_is_given_and_what_did_not_do() -> None:
    asked = load_prompt("paraphrase")
    given = {"sentence": "A dog."}
    found = asked.build_messages(
        given, 2, [FailedAnswer('{"idea": "x", "sentence": "A dog."}', "negligible change")]
    )
    assert [role for role, _ in found] == ["system", *["user", "assistant"] * 2, "user", "assistant", "user"]
    assert all(rule in found[0][1] for rule in asked.rules)
    assert [words for _, words in found[-3:]] == [
        "Sentence: A dog.",
        '{"idea": "x", "sentence": "A dog."}',
        "That does not do: negligible change. Answer again.",
    ]
    long = {"idea": "x" * 10**5, "sentence": "y"}
    assert json.loads(format_failed_answer(long)) == {"idea": "x" * 300, "sentence": "y"}


@pytest.mark.parametrize("name", list_prompt_names())
def test_a_schema_bounds_every_text_and_list_and_allows_nothing_else(name: str) -> None:
    asked = load_prompt(name)
    schema = json.loads(asked.format_schema_text())
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"]) == list(asked.answer)
    for field in schema["properties"].values():
        assert {"maxLength", "enum", "maxItems"} & set(field)
        assert "maxLength" in field.get("items", {"maxLength": 1})
    for example in asked.examples:
        for answer, field in zip(example.answer.values(), schema["properties"].values(), strict=True):
            assert len(answer) <= field.get("maxLength", field.get("maxItems", 3))


def test_versions_of_prompts_do_not_change_with_the_bounds_so_that_stored_responses_stay_known() -> None:
    assert compute_prompt_version("find_obj", 7) == "a6b0841c6465"  # of the release before the bounds


def test_a_version_follows_the_words_that_are_said() -> None:
    versions = {compute_prompt_version(name, n) for name in list_prompt_names() for n in (0, 3, 7)}
    assert len(versions) == 3 * len(list_prompt_names())
