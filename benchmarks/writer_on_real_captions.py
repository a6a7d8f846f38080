"""What the embedded language model, which knows the world's words alone, makes of real captions, and why it fails.

python benchmarks/writer_on_real_captions.py data/writer sugarcrepe/ work/real_captions
"""

from __future__ import annotations

from pathlib import Path

import click
import pandas as pd

from caramel.captions.asked.language_writer import language_negatives
from caramel.profile import read_profile
from caramel.running.quiet import be_quiet
from caramel.sources.folders import read_pairs

ROOT = Path(__file__).parents[1]


@click.command()
@click.argument("model", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("files", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--captions", "number", default=200, show_default=True, type=click.IntRange(min=1))
def main(model: Path, files: Path, out: Path, number: int) -> None:
    """Measure and print; see the module."""
    be_quiet()
    config = read_profile("language", {}, ROOT)[1].negatives
    pairs = read_pairs(files=str(files), held_out=(0.1, 0.2), seed=1, put=lambda *_, **__: None).pairs
    pairs = pairs.drop_duplicates("caption")
    pairs = pairs.iloc[:: max(1, len(pairs) // number)].head(number)
    written = language_negatives(
        pairs,
        seed=config.seed,
        attempts=2,
        parts=("negatives", "paraphrases"),
        model={**config.language_model.model_dump(), "target": f"local:{model}"},
        store=out / "replies.sqlite",
    )
    assert written.replies is not None
    asked = sum(map(len, written.replies))
    kept = len(written.negatives) + len(written.paraphrases)
    print(f"{len(pairs)} captions, {asked:,} requests: {kept} texts kept, {len(written.rejects)} rejects")
    print(written.rejects["reason"].value_counts().to_string())
    print(pd.concat([written.negatives["negative_caption"], written.paraphrases["caption2"]]).to_string())


if __name__ == "__main__":
    main()
