"""A chat endpoint's behaviour that answers the prompts of captions by the word lists, as a good model would."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
from chat_server import Request, Response

from caramel.io.safe_yaml import read_yaml
from caramel.schemas.catalogue import TABLES
from caramel.schemas.io import write_table, write_table_parts
from caramel.schemas.llm import REPLIES
from caramel.sources.captions.llm.changes import normalise_words
from caramel.sources.captions.llm.writer import language_negatives
from caramel.sources.captions.phrase_types import KINDS
from caramel.sources.captions.prompts.prompt_files import list_prompt_names, load_prompt
from caramel.sources.captions.tokenization import (
    Edit,
    Sentence,
    WordMatch,
    apply_edits,
    parse_sentence,
    scan_words,
)

DEFAULT = read_yaml(Path(__file__).parents[2] / "params" / "default.yaml", "")["negatives"]["language_model"]
MODEL = {**DEFAULT, "validator_gold_items": 0}  # test_validator.py tests them
PHYSICAL = ("colour", "size", "material", "pattern")
BOTH = ("negatives", "paraphrases")
NEW = {
    "obj": ["giraffe", "teapot", "canoe"],
    "att": ["purple", "golden", "rusty"],
    "rel": ["circling", "beneath", "painting"],
}
CAPTIONS = [
    "A white cat in front of a red car.",
    "A brown dog next to a small bike.",
    "A black horse behind a blue bus.",
    "A young woman holding a green umbrella.",
]


@functools.cache
def tasks() -> dict[str, str]:
    return {load_prompt(name).task: name for name in list_prompt_names()}


def asked(request: Request) -> tuple[str, dict[str, str]]:
    """Return the name of the prompt, and what it was asked of."""
    messages = request.body["messages"]
    name = next(name for task, name in tasks().items() if messages[0]["content"].startswith(task))
    given = next(
        m["content"]
        for m in reversed(messages)
        if m["role"] == "user" and not m["content"].startswith("That")
    )
    lines = (line.partition(": ") for line in given.splitlines())
    return name, {key.lower(): value for key, _, value in lines}


def said_graph(objects: str, relations: str) -> str:
    """Return a plain caption of a list of objects with their attributes, and of relations."""
    things = [thing.partition(" (") for thing in objects.split("; ")]
    said = [
        f"a {looks.removesuffix(')').replace(', ', ' ')} {noun}".replace("  ", " ")
        for noun, _, looks in things
    ]
    related = [] if relations == "none" else [f"the {relation}" for relation in relations.split("; ")]
    return f"There is {', '.join([*said, *related])}."


def answer(name: str, given: Mapping[str, str], turn: int) -> dict[str, Any]:
    """Return the answer to a prompt; turn: of the proposals."""
    if name.startswith("find_"):
        part = name.partition("_")[2]
        text = given["sentence"]
        found = [text[f.start : f.end].lower() for f in scan_words(text) if f.word_type == KINDS[part]]
        return {next(iter(load_prompt(name).answer)): found}
    if name.endswith("_propose"):
        options = NEW[name.split("_")[1]]
        return {"new": options[turn % len(options)]}
    if name.endswith("_compose"):
        text, new = given["sentence"], given["new"]
        old = given.get("object") or given.get("attribute") or given["relation"]
        put = {"replace": new, "add_obj": f"{old} and a {new}", "add_att": f"{new} {old}"}
        return {
            "sentence": text.replace(old, put[name.removesuffix("_compose")] if name[0] == "a" else new, 1)
        }
    if name.startswith("swap_"):
        edits = swap(name, given["sentence"])
        if not edits:
            return {"possible": "no", "first": "", "second": "", "sentence": ""}
        first, second = (given["sentence"][e.start : e.end] for e in edits)
        return {
            "possible": "yes",
            "first": first,
            "second": second,
            "sentence": apply_edits(given["sentence"], edits),
        }
    if name == "say_graph":
        return {"sentence": said_graph(given["objects"], given["relations"])}
    if name == "paraphrase":
        text = given["sentence"]
        return {"idea": "say that it is there", "sentence": f"There is {text[:1].lower()}{text[1:]}"}
    return {
        "validate_paraphrase": {"same": "yes", "problem": "none"},
        "validate_negative": {"follows": "no"},
    }[name]


def find_noun(sentence: Sentence, attribute: WordMatch) -> WordMatch | None:
    """Return the noun that follows an attribute, with only attributes between."""
    at = attribute.end
    for match in sorted((*sentence.nouns, *sentence.attributes)):
        if match.start > at and not sentence.text[at : match.start].strip():
            if match.word_type == "noun":
                return match
            at = match.end
    return None


def swap(name: str, text: str) -> list[Edit]:
    """Return the exchange of the first two words of a kind whose order matters, or nothing."""
    sentence = parse_sentence(text, ())
    if name == "swap_att":
        holders = [(a, find_noun(sentence, a)) for a in sentence.attributes]
        known = [(a, noun) for a, noun in holders if noun and a.group in PHYSICAL]
        pairs = [(a, b) for (a, n), (b, m) in combinations(known, 2) if n != m and a.word != b.word]
    else:
        pairs = [
            (a, b)
            for a, b in combinations(sentence.nouns, 2)
            if a.word != b.word and a.plural == b.plural and " next " not in text[a.end : b.start]
        ]
    return [
        Edit(one.start, one.end, sentence.get_written_form(other))
        for pair in pairs[:1]
        for one, other in (pair, pair[::-1])
    ]


def completion(text: str | None, finish: str = "stop", tokens: tuple[int, int] = (100, 10)) -> Response:
    """A completion with what the server counted."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return Response(body=json.dumps({"choices": [choice], "usage": usage}).encode())


def obliging(request: Request, number: int) -> Response:
    name, given = asked(request)
    return completion(json.dumps(answer(name, given, request.body["seed"])))


def find_change(caption: str, text: str) -> tuple[str, str]:
    """Return the words of each of two texts between their equal beginnings and ends."""
    old, new = normalise_words(caption), normalise_words(text)
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return " ".join(old), " ".join(new)


def pairs_of(captions: list[str]) -> pd.DataFrame:
    names = [f"p{i}" for i in range(len(captions))]
    return pd.DataFrame({"pair_id": names, "image_id": names, "caption": captions})


def write(
    url: str,
    folder: Path,
    pairs: pd.DataFrame | None = None,
    parts: Any = BOTH,
    max_attempts: int = 3,
    **model: Any,
) -> Path:
    """Write the tables into a folder of their own beside the store of replies; return it."""
    settings = {**MODEL, "target": f"chat:m@{url}", "name": "m", **model}
    written = language_negatives(
        pairs_of(CAPTIONS) if pairs is None else pairs,
        seed=2,
        max_attempts=max_attempts,
        parts=parts,
        model=settings,
        store=folder / "r.sqlite",
    )
    assert written.replies is not None
    assert written.verdicts is not None
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    write_table_parts(REPLIES, written.replies, out / "replies.parquet", by="reply_id")
    for name in ("negatives", "paraphrases", "rejects", "verdicts"):
        write_table(TABLES[name], getattr(written, name), out / f"{name}.parquet")
    return out
