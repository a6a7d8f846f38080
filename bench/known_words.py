"""Count and list the words of released negatives that no dictionary has, and those of a model's negatives.

    python bench/known_words.py sugarcrepe/ --wordnet /usr/share/wordnet --negatives data/

Released negatives are those of ``replace_*.json`` and ``add_*.json``: their words exist, so that the share that is
refused is one of good negatives.
"""

from __future__ import annotations

import json
from pathlib import Path

import click
import pandas as pd

from caramel.sources.captions.llm.changes import normalise_words
from caramel.sources.captions.llm.vocabulary import Vocabulary


def list_refused(rows: list[tuple[str, str]], vocabulary: Vocabulary) -> list[str]:
    """Return the unknown new words of each (caption, negative) that has some."""
    unknown = (
        vocabulary.list_unknown_words(negative, {*normalise_words(caption)}) for caption, negative in rows
    )
    return [" ".join(words) for words in unknown if words]


@click.command()
@click.argument("files", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--wordnet", required=True, help="Folder of WordNet's files.")
@click.option("--spacy-model", default=None, help="Package or folder of a spaCy model.")
@click.option("--negatives", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(files: Path, wordnet: str, spacy_model: str | None, negatives: Path | None) -> None:
    """Count and print; see the module's docstring."""
    vocabulary = Vocabulary(wordnet, spacy_model)
    paths = sorted([*files.glob("replace_*.json"), *files.glob("add_*.json")])
    rows = [row for path in paths for row in json.loads(path.read_text(encoding="utf-8")).values()]
    refused = list_refused([(row["caption"], row["negative_caption"]) for row in rows], vocabulary)
    print(f"{len(refused)} of {len(rows)} released negatives are refused ({len(refused) / len(rows):.2%})")
    print(refused)
    if negatives is not None:
        table = pd.read_parquet(negatives / "negatives/negatives.parquet")
        captions = pd.read_parquet(negatives / "scenes/pairs.parquet").set_index("pair_id")["caption"]
        texts = [*zip(table["pair_id"].map(captions), table["negative_caption"], strict=True)]
        refused = list_refused(texts, vocabulary)
        print(f"{len(refused)} of {len(texts)} of the model's negatives are refused: {refused}")


if __name__ == "__main__":
    main()
