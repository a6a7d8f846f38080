"""Stage ``synthesize``: candidate images of the negative captions, in resumable shards on Ray."""

import json
from pathlib import Path

from caramel import tables
from caramel.config import Config
from caramel.images.generation import choose_negatives, choose_settings, synthesize as draw
from caramel.stages import run


def synthesize(config: Config) -> None:
    """Write data/synthesize/{candidates,images}.parquet and settings.json."""
    section = config.synthesize
    pairs = tables.read(tables.PAIRS, "data/refine/pairs.parquet")
    negatives = tables.read(tables.NEGATIVES, "data/refine/negatives.parquet")
    common = {
        "generator": "data/generator",
        "seed": section.seed,
        "size": section.size,
        "device": config.run.device,
        "executor": config.run.executor,
        "folder": Path("work/synthesize"),
    }
    chosen = choose_negatives(negatives, pairs, per_subtype=section.per_subtype, seed=section.seed)
    per_subtype = {"val": -(-section.grid_captions // chosen["subtype"].nunique())}
    held_out = choose_negatives(negatives, pairs, per_subtype=per_subtype, seed=section.seed + 1)
    judge = config.filter_images.judge
    settings = choose_settings(
        held_out.head(section.grid_captions),
        guidance=section.grid.guidance,
        steps=section.grid.steps,
        judge=judge,
        judge_settings={"checkpoint": str(Path("data/base").resolve()), "device": config.run.device},
        **common,
    )
    candidates, images = draw(
        chosen,
        candidates=section.candidates,
        shard=section.shard,
        prompt_suffix=section.prompt_suffix,
        **settings["chosen"],
        **common,
    )
    tables.write(tables.CANDIDATES, candidates, "data/synthesize/candidates.parquet")
    tables.write(tables.IMAGES, images, "data/synthesize/images.parquet")
    Path("data/synthesize/settings.json").write_text(json.dumps(settings, indent=2) + "\n")


if __name__ == "__main__":
    run(
        synthesize,
        images_needed={
            "data/synthesize/candidates.parquet": tables.CANDIDATES,
            "data/synthesize/images.parquet": tables.IMAGES,
            "data/synthesize/settings.json": None,
        },
    )
