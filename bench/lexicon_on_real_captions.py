"""Write negatives of real captions by word lists, count them by subtype, and print some to be read by eye.

    python bench/lexicon_on_real_captions.py sugarcrepe/ --seed 1 --spacy en_core_web_sm

The captions are drawn from SugarCrepe's positives, one per image. The negatives to read are drawn at random over all
subtypes. Whether one is bad (ungrammatical, implausible, or still true of the caption's image) is for a person to say.
"""

from __future__ import annotations

from pathlib import Path

import click

from caramel.sources.captions.lexicon import lexicon_negatives
from caramel.sources.captions.word_lists.rules import RULES
from caramel.sources.sugarcrepe_files import read_captions


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--captions", "number", default=120, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--seed", default=1, show_default=True, help="Of the captions, the negatives and those that are printed."
)
@click.option(
    "--spacy", "spacy_model", default=None, help="spaCy model that tags the words; none: the lists' own tags."
)
@click.option("--read", default=40, show_default=True, type=click.IntRange(min=0), help="Negatives to print.")
def main(folder: Path, number: int, seed: int, spacy_model: str | None, read: int) -> None:
    """Write, count and print; see the module's docstring."""
    rows = read_captions(folder).drop_duplicates("image_id").sample(number, random_state=seed)
    result = lexicon_negatives(rows, data_dir="", seed=seed, max_attempts=1, spacy_model=spacy_model)
    negatives = result.negatives.merge(rows[["pair_id", "caption"]], on="pair_id")
    for subtype in RULES:
        print(f"{subtype}: {(negatives['subtype'] == subtype).sum()} of {number}")
    print(f"all: {len(negatives)} of {len(RULES) * number}; paraphrases: {len(result.paraphrases)}\n")
    for row in negatives.sample(min(read, len(negatives)), random_state=seed).itertuples():
        print(f"{row.subtype}\n  {row.caption}\n  {row.negative_caption}")


if __name__ == "__main__":
    main()
