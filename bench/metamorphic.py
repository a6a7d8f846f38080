"""Probe the world's models with details of exact truth: `python bench/metamorphic.py PROJECT`.

PROJECT has a finished run of the default profile. Each test scene of two or more objects gives a caption of one object,
a true detail (another object of the scene), a false one, and a paraphrase by another pattern of the language. The false
detail is an object that the scene does not have, or the true detail in a colour that the object does not have.

Printed are the rates of `caramel probe` for the base and for the first seed of each variant.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import numpy as np
import pandas as pd

from caramel.evaluation.metamorphic.cases import CaptionRow, build_cases
from caramel.evaluation.metamorphic.rates import compute_rates, score_cases
from caramel.evaluation.scores.encoding import RunConfig
from caramel.interfaces.settings import Compute
from caramel.io.image_store import ImageStore
from caramel.report.terminal import format_metrics
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.schemas.pairs import PAIRS
from caramel.sources.world.grammar import PATTERNS, Reading, format_mention, realise_caption
from caramel.sources.world.scenes import COLOURS, NOUNS, Meaning, Mention, Scene
from caramel.utils.resampling import Bootstrap


def write_rows(scene: Scene, image: str, rng: np.random.Generator) -> dict[str, CaptionRow]:
    """Return type of false detail -> a caption of one object with exact details."""
    order = rng.permutation(len(scene.things)).tolist()
    first, second = (scene.things[number] for number in order[:2])
    meaning = Meaning((Mention(first.noun, first.colour, first.size),), ())
    patterns = rng.permutation(len(PATTERNS[1, 0])).tolist()[:2]
    caption, paraphrase = (realise_caption(Reading(meaning, pattern)) for pattern in patterns)
    absent = [noun for noun in NOUNS if all(noun != thing.noun for thing in scene.things)]
    others = [colour for colour in COLOURS if colour != second.colour]
    false = {
        "absent object": Mention(str(rng.choice(absent)), second.colour, second.size),
        "wrong colour": Mention(second.noun, str(rng.choice(others)), second.size),
    }
    true = f"along with {format_mention(Mention(second.noun, second.colour, second.size))}"
    return {
        name: CaptionRow(image, caption, true, f"along with {format_mention(mention)}", paraphrase)
        for name, mention in false.items()
    }


@click.command(help=__doc__)
@click.argument("project", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--scenes", default=600, show_default=True, type=click.IntRange(10))
@click.option("--seed", default=0, show_default=True)
def main(project: Path, scenes: int, seed: int) -> None:
    """Print the rates of every model."""
    data = project / "data"
    pairs = read_table(PAIRS, data / "scenes" / "pairs.parquet")
    pairs = pairs[(pairs["split"] == "test") & pairs["scene"].notna()].drop_duplicates("image_id")
    rng = np.random.default_rng(seed)
    files = ImageStore(
        data / "scenes" / "images.parquet", read_table(IMAGES, data / "scenes" / "images.parquet")
    )
    models = [data / "base", *sorted((data / "finetune").glob("*-11"))]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows: dict[str, list[CaptionRow]] = {}
        for name, text in zip(pairs["image_id"], pairs["scene"], strict=True):
            scene = Scene.from_json(text)
            if len(scene.things) > 1 and (len(rows) == 0 or len(rows["wrong colour"]) < scenes):
                (folder / f"{name}.png").write_bytes(files[name])
                for false, row in write_rows(scene, f"{name}.png", rng).items():
                    rows.setdefault(false, []).append(row)
        for false, listed in rows.items():
            cases, _ = build_cases(listed, parse=None, seed=seed)
            scored = [
                score_cases(
                    cases,
                    folder,
                    RunConfig(
                        f"{m.name}=open_clip:{m}", Compute("cpu", "fp32"), None, f"{folder}/store", "inline"
                    ),
                )
                for m in models
            ]
            rates = compute_rates(pd.concat(scored, ignore_index=True), Bootstrap(1000, seed))
            click.echo(f"\nFalse detail: {false}; {len(cases)} cases\n{format_metrics(rates)}")


if __name__ == "__main__":
    main()
