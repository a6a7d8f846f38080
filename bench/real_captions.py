"""Write captions of SugarCrepe's files as a text file, one a line: input of profile `real`.

    python bench/real_captions.py sugarcrepe/ inputs/real/captions.txt --number 100

Different captions of different images, drawn with a seed.
"""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np

from caramel.io.files import write_text


@click.command()
@click.argument("files", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--number", default=100, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
def main(files: Path, out: Path, number: int, seed: int) -> None:
    """Draw the captions and write them."""
    paths = sorted(files.glob("*_*.json"))
    if not paths:
        raise click.ClickException(f"{files} holds no files of SugarCrepe (replace_obj.json …).")
    by_image: dict[str, str] = {}
    for path in paths:
        for row in json.loads(path.read_text(encoding="utf-8")).values():
            by_image.setdefault(row["filename"], " ".join(row["caption"].split()))
    captions = [*dict.fromkeys(by_image.values())]
    drawn = np.random.default_rng(seed).permutation(len(captions))[:number]
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, "\n".join(captions[i] for i in sorted(drawn)) + "\n")
    print(f"{len(drawn)} captions in {out}")


if __name__ == "__main__":
    main()
