"""Stage ``synthesize``: draw candidate images of the negative captions, in resumable shards on Ray."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.config.schema import Config
from caramel.config.sections.images import Synthesize
from caramel.interfaces.settings import Execution
from caramel.io.files import write_json
from caramel.io.image_shards import ShardWriter
from caramel.io.image_store import ImageStore
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.images.candidates import build_stop_rule
from caramel.sources.images.diffusion import Sampling
from caramel.sources.images.generation import (
    Drawing,
    build_prompts,
    build_rejects,
    choose_negatives,
    choose_settings,
    generate_candidates,
    hold_out,
)
from caramel.sources.images.photo_edits.drawing import EditSettings
from caramel.sources.images.photo_edits.inputs import add_edit_inputs, read_masks, split_editable

SOURCE_IMAGES = "data/scenes/images.parquet"


def synthesize(config: Config) -> None:
    """Write data/synthesize/{candidates,images,rejects}.parquet, settings.json, and the images in images/."""
    section, out = config.synthesize, Path("data/synthesize")
    pairs = read_table(PAIRS, "data/refine/pairs.parquet")
    negatives = read_table(NEGATIVES, "data/select_negatives/negatives.parquet")
    edit = None
    if section.method in ("inpaint", "instruct"):
        edit = EditSettings(section.method, section.positives, section.image_guidance)
    drawing = Drawing(
        generator="data/generator",
        seed=section.seed,
        image_size=section.image_size,
        batch_size=section.batch_size,
        device=config.run.device,
        execution=Execution(config.run.executor, Path("work/synthesize"), config.run.gpus.synthesize),
        edit=edit,
    )
    editable, uneditable, add_inputs = _prepare_edits(config.synthesize, negatives, pairs)
    source = read_table(PAIRS, "data/scenes/pairs.parquet")

    def build(rows: pd.DataFrame) -> list[dict[str, Any]]:
        return add_inputs(
            build_prompts(
                rows,
                pairs,
                source,
                method=section.method,
                prompt_suffix=section.prompt_suffix,
                seed=section.seed,
            )
        )

    settings = choose_settings(
        build(hold_out(editable, pairs, count=section.grid_captions, seed=section.seed)),
        drawing,
        **section.grid.model_dump(),
        judge=section.grid_judge or config.filter_images.judge,
        judge_checkpoint="data/base",
        allow_unmentioned_objects=config.scenes.allow_unmentioned_objects,
    )
    chosen = choose_negatives(
        editable,
        pairs,
        per_subtype=dict(section.per_subtype),
        one_per_image=section.one_per_image,
        seed=section.seed,
    )
    until = build_stop_rule(
        config.filter_images.judge,
        allow_unmentioned_objects=config.scenes.allow_unmentioned_objects,
        faithfulness_threshold=config.filter_images.faithfulness_threshold,
        keep_ambiguous=config.filter_images.keep_ambiguous,
    )
    with ShardWriter(out / "images") as shards:
        candidates = generate_candidates(
            build(chosen),
            dict(zip(chosen["negative_id"], chosen["split"], strict=True)),
            drawing,
            candidates=section.candidates,
            until=until,
            shard_size=section.shard_size,
            sampling=Sampling(**settings["chosen"]),
            put=shards.add_image,
        )
    write_table(CANDIDATES, candidates, out / "candidates.parquet")
    write_table(IMAGES, build_frame(IMAGES, shards.build_index()), out / "images.parquet")
    write_table(REJECTS, build_rejects(negatives, chosen, uneditable), out / "rejects.parquet")
    write_json(out / "settings.json", settings)


def _prepare_edits(
    section: Synthesize, negatives: pd.DataFrame, pairs: pd.DataFrame
) -> tuple[pd.DataFrame, dict[str, str], Callable[[list[dict[str, Any]]], list[dict[str, Any]]]]:
    """Return the negatives that can be drawn, negative_id -> reason for others, and what adds an editor's inputs."""
    if section.method in ("draw", "edit"):
        return negatives, {}, lambda rows: rows
    sources = ImageStore(SOURCE_IMAGES, read_table(IMAGES, SOURCE_IMAGES))
    masks = read_masks(section.masks) if section.method == "inpaint" else None
    return *split_editable(negatives, pairs, sources, masks), partial(
        add_edit_inputs,
        images=sources,
        masks=masks,
        method=section.method,
        image_size=section.image_size,
        folder="work/synthesize/inputs",
    )


if __name__ == "__main__":
    run_stage(
        synthesize,
        images_needed={
            "data/synthesize/candidates.parquet": CANDIDATES,
            "data/synthesize/images.parquet": IMAGES,
            "data/synthesize/images": None,
            "data/synthesize/rejects.parquet": REJECTS,
            "data/synthesize/settings.json": None,
        },
    )
