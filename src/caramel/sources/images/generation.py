"""Generate candidate images of negative captions in resumable shards, with settings from a small grid."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from caramel.errors import DataError
from caramel.interfaces.settings import Execution
from caramel.interfaces.source import SaveImage
from caramel.models.devices import get_gpus_per_worker, resolve_device
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.runtime.ray.sharded_map import map_shards
from caramel.runtime.ray.trials import tune_grid
from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.io import build_frame
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions.formatting import append_suffix
from caramel.sources.images.candidates import StopRule, draw_shard
from caramel.sources.images.diffusion import Sampling
from caramel.sources.images.judge_specs import load_judge, split_judge_spec
from caramel.sources.images.photo_edits.drawing import EditSettings

NOT_DRAWN = "not chosen to be drawn: its image or its subtype has its number"

Method = Literal["draw", "edit", "inpaint", "instruct"]


@dataclass(frozen=True)
class Drawing:
    """The generator, and the device and executor that draw images.

    Attributes:
        generator: generator folder.
        seed: seed of the images.
        image_size: side in pixels.
        batch_size: images per call of the pipeline.
        device: auto, cpu or cuda.
        execution: how shards and trials run.
        edit: how source images are edited; None: images are drawn.
    """

    generator: str
    seed: int
    image_size: int
    batch_size: int
    device: str
    execution: Execution
    edit: EditSettings | None = None

    def build_settings(self) -> dict[str, Any]:
        """Return the settings that all shards and trials share."""
        return {
            "generator": LocalFile(self.generator),
            "seed": self.seed,
            "image_size": self.image_size,
            "batch_size": self.batch_size,
            "device": resolve_device(self.device),
            "edit": None if self.edit is None else asdict(self.edit),
        }

    def get_run_options(self) -> dict[str, Any]:
        """Return the options of ``map_shards`` and ``tune_grid``: folder, executor and GPUs."""
        gpus = get_gpus_per_worker(self.execution.gpus, self.device)
        return {"folder": self.execution.folder, "executor": self.execution.executor, "gpus": gpus}


def choose_negatives(
    negatives: pd.DataFrame,
    pairs: pd.DataFrame,
    *,
    per_subtype: Mapping[Any, int],
    one_per_image: bool = True,
    seed: int,
) -> pd.DataFrame:
    """Return the negatives to draw, with their split: at most a fixed number per subtype.

    The draw uses a hash of the seed and the negative's id, so the order of rows does not affect it.

    Args:
        negatives: table ``negatives``.
        pairs: table ``pairs``.
        per_subtype: split -> number of negatives per subtype; no negatives are drawn for other splits.
        one_per_image: whether at most one negative of an image is drawn.
        seed: seed of the draw.

    Raises:
        DataError: no negative is left to draw.
    """
    names = negatives[["negative_id", "pair_id", "subtype"]]  # without captions: there can be millions
    rows = names.merge(pairs[["pair_id", "image_id", "split"]], on="pair_id", validate="many_to_one")
    draw = rows["negative_id"].map(lambda name: zlib.crc32(f"{seed}:{name}".encode()))
    rows = rows.assign(draw=draw).sort_values(["draw", "negative_id"])
    taken: list[pd.DataFrame] = []
    used: set[str] = set()
    # Rare subtypes choose their images first, or common ones would leave them none.
    for subtype in reversed(rows["subtype"].value_counts().index.tolist()):
        free = rows[rows["subtype"] == subtype]
        if one_per_image:
            free = free[~free["image_id"].isin(used)].drop_duplicates("image_id")
        rank = free.groupby("split").cumcount()
        taken.append(free[rank < free["split"].map(per_subtype).astype("float64").fillna(0)])
        used.update(taken[-1]["image_id"])
    if not sum(len(part) for part in taken):
        raise DataError(
            f"No negative caption is left to draw (of {len(negatives)}, with per_subtype = "
            f"{dict(per_subtype)}). Use more data, or raise synthesize.per_subtype."
        )
    chosen = pd.concat(taken)[["negative_id", "split"]]
    of_chosen = negatives[negatives["negative_id"].isin(chosen["negative_id"])]
    selected = of_chosen.merge(chosen, on="negative_id").sort_values("negative_id", ignore_index=True)
    return selected[[*NEGATIVES.columns, "split"]]


def build_rejects(
    negatives: pd.DataFrame, chosen: pd.DataFrame, uneditable: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return the negatives that are not drawn, as table ``rejects``.

    Args:
        negatives: table ``negatives``.
        chosen: result of ``choose_negatives``.
        uneditable: negative_id -> reason, of ``photo_edits.inputs.split_editable``.
    """
    is_chosen = negatives["negative_id"].isin(chosen["negative_id"])
    left = negatives.loc[~is_chosen, ["negative_id", "negative_caption"]]
    assert len(left) + len(chosen) == len(negatives), (len(left), len(chosen), len(negatives))
    columns = {"id": left["negative_id"], "stage": "synthesize", "text": left["negative_caption"]}
    reasons = left["negative_id"].map(uneditable or {}).astype(object).fillna(NOT_DRAWN)
    return build_frame(REJECTS, pd.DataFrame(columns).assign(reason=reasons))


def hold_out(negatives: pd.DataFrame, pairs: pd.DataFrame, *, count: int, seed: int) -> pd.DataFrame:
    """Return ``count`` negatives of the val split, evenly over subtypes, on which settings are chosen."""
    share = -(-count // max(1, negatives["subtype"].nunique()))
    return choose_negatives(negatives, pairs, per_subtype={"val": share}, seed=seed).head(count)


def build_prompts(
    negatives: pd.DataFrame,
    pairs: pd.DataFrame,
    source: pd.DataFrame,
    *,
    method: Method,
    prompt_suffix: str,
    seed: int,
) -> list[dict[str, str]]:
    """Return the generator's input for each negative caption.

    Args:
        negatives: table ``negatives``.
        pairs: table ``pairs`` after refinement.
        source: all pairs of the source. They determine what images of train show, and what only images of test may
            show.
        method: ``draw``: the caption as a whole; ``edit``: the scenes of both captions, see ``editing.py``;
            ``inpaint``, ``instruct``: the caption with the name of its source image, see ``photo_edits``.
        prompt_suffix: text that replaces the final stop of each prompt (Miranda et al. 2024, step 2); empty: the
            prompt is the caption.
        seed: seed of the random choices in a planned scene.

    Raises:
        DataError: ``method`` is ``edit``, and a caption is not a caption of the embedded world.
    """
    captions = negatives["negative_caption"]
    prompt = [append_suffix(caption, prompt_suffix) for caption in captions]
    prompt_rows = pd.DataFrame(
        {"negative_id": negatives["negative_id"], "caption": captions, "prompt": prompt}
    )
    of_pair = pairs.set_index("pair_id").loc[negatives["pair_id"], ["caption", "scene", "split"]]
    prompt_rows = prompt_rows.assign(positive=of_pair["caption"].to_numpy(), type=negatives["type"])
    if method in ("inpaint", "instruct"):
        image_of = pairs.set_index("pair_id")["image_id"]
        prompt_rows = prompt_rows.assign(image_id=image_of.loc[negatives["pair_id"]].to_numpy())
    if method == "edit":
        from caramel.sources.images.editing import plan_scene_edit
        from caramel.sources.world.compounds import list_split_compounds

        _, tested = list_split_compounds(source)
        rows = zip(prompt_rows["negative_id"], captions, *(of_pair[c] for c in of_pair), strict=True)
        plans = [plan_scene_edit(*row, seed=seed, tested=tested) for row in rows]
        prompt_rows = prompt_rows.assign(
            suffix=prompt_suffix, scene=of_pair["scene"].to_numpy(), planned=plans
        )
    return [
        dict(zip(prompt_rows.columns, row, strict=True))
        for row in prompt_rows.itertuples(index=False, name=None)
    ]


def generate_candidates(
    prompt_rows: Sequence[Mapping[str, str]],
    splits: Mapping[str, str],
    drawing: Drawing,
    *,
    candidates: int,
    until: StopRule | None,
    shard_size: int,
    sampling: Sampling,
    put: SaveImage,
) -> pd.DataFrame:
    """Return table ``candidates``: up to ``candidates`` images, or pairs of images, of each negative caption.

    Args:
        prompt_rows: result of ``build_prompts`` for the rows of ``choose_negatives``.
        splits: negative_id -> split.
        drawing: the generator, device and executor.
        candidates: maximum number of candidates of each negative caption.
        until: result of ``build_stop_rule``; None: all candidates are drawn.
        shard_size: captions per shard, the unit of resuming.
        sampling: guidance and steps.
        put: called with each image in turn; the two images of a pair follow each other, the negative first.
    """
    how_called = {"candidates": candidates, "until": until, **asdict(sampling)}
    parts = map_shards(
        draw_shard,
        [list(prompt_rows[start : start + shard_size]) for start in range(0, len(prompt_rows), shard_size)],
        settings={**drawing.build_settings(), **how_called},
        title="synthesize",
        **drawing.get_run_options(),
    )
    how = f"guidance={sampling.guidance:g} steps={sampling.steps}"
    rows = []
    for path in parts:
        for row in pq.read_table(path).to_pylist():
            name, png, positive = row["negative_id"], row.pop("png"), row.pop("positive_png")
            row["image_id"] = f"{name}#{row['candidate']}"
            row["positive_image_id"] = None if positive is None else f"{row['image_id']}+"
            for image_id, data in ((row["image_id"], png), (row["positive_image_id"], positive)):
                if data is not None:
                    known = {"source": f"synthetic ({how})", "split": splits[name]}
                    put(
                        image_id,
                        data,
                        f"{image_id}.png",
                        width=drawing.image_size,
                        height=drawing.image_size,
                        **known,
                    )
            rows.append(row)
    assert len(prompt_rows) <= len(rows) <= len(prompt_rows) * candidates
    by_name = pd.DataFrame(prompt_rows).set_index("negative_id").reindex(columns=["prompt", "planned"])
    table = pd.DataFrame(rows).join(by_name, "negative_id").rename(columns={"planned": "scene"})
    return build_frame(CANDIDATES, table.assign(generator=how))


def grid_trial(
    point: Mapping[str, Any],
    scratch: str,
    *,
    captions: Sequence[Mapping[str, str]],
    judge: Sequence[str],
    judge_checkpoint: str,
    allow_unmentioned_objects: bool,
    generator: str,
    seed: int,
    image_size: int,
    batch_size: int,
    device: str,
    edit: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Draw held-out captions with one setting, and return the judge's mean fit.

    With the exact reading as judge, the mean fit is the share of images that it finds true. ``judge`` is the parts of
    its spec.
    """
    drawn = draw_shard(
        captions,
        candidates=1,
        until=None,
        generator=generator,
        seed=seed,
        guidance=point["guidance"],
        steps=point["steps"],
        image_size=image_size,
        batch_size=batch_size,
        device=device,
        edit=edit,
    ).to_pandas()
    decide = load_judge(
        "".join(judge),
        checkpoint=judge_checkpoint,
        device=device,
        allow_unmentioned_objects=allow_unmentioned_objects,
    )
    caption_of = {row["negative_id"]: row["caption"] for row in captions}
    texts = drawn["negative_id"].map(caption_of).tolist()
    scores = decide.score_match(drawn["png"].tolist(), texts)
    return {**point, "fit": float(np.mean(scores)), "n": len(scores)}


def choose_settings(
    prompt_rows: Sequence[Mapping[str, str]],
    drawing: Drawing,
    *,
    guidance: Sequence[float],
    steps: Sequence[int],
    judge: str,
    judge_checkpoint: str,
    allow_unmentioned_objects: bool,
) -> dict[str, Any]:
    """Return {"chosen": setting, "grid": all settings with their mean fit}.

    The setting with the best mean fit is chosen, or the first of these. No threshold is applied, since each model
    has its own scale as a judge.

    Args:
        prompt_rows: result of ``build_prompts`` for negatives of the val split; each is drawn once per setting.
        drawing: the generator, device and executor.
        guidance, steps: values of the grid.
        judge: spec of the judge, see ``load_judge``.
        judge_checkpoint: checkpoint folder, for a judge that is a model.
        allow_unmentioned_objects: whether a caption may leave out objects that its image shows.
    """
    points = [{"guidance": g, "steps": s} for g, s in product(guidance, steps)]
    trials = tune_grid(
        grid_trial,
        points,
        settings={
            "captions": prompt_rows,
            **drawing.build_settings(),
            "judge": split_judge_spec(judge),
            "judge_checkpoint": LocalFile(judge_checkpoint),
            "allow_unmentioned_objects": allow_unmentioned_objects,
        },
        title="generation settings",
        **drawing.get_run_options(),
    )
    results = [trial.result for trial in trials]
    best = max(results, key=lambda r: r["fit"])
    return {"chosen": {k: best[k] for k in ("guidance", "steps")}, "grid": results}
