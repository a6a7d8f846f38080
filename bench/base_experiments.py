"""Compare what a base learns of relations for different training data and methods: `python bench/base_experiments.py`.

Each arm draws its own training scenes, trains a base with one change, and scores it on the same test
instances. For each of six subtypes these are test captions with relations and no positions, each with a
negative by the rules and both images rendered. Printed and written as CSV are Group in per cent (chance 16.7)
by subtype, and the CPU seconds of the training. `--only NAME` runs some of the arms. An arm takes one to five
minutes on one core.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from arms import score_group, write_rows

from caramel.config.schema import load_config
from caramel.interfaces.training_settings import BaseConfig
from caramel.models.open_clip.checkpoints import load_encoder
from caramel.sources.captions.scene_writer import write_negative
from caramel.sources.world.compounds import is_allowed_in_split, list_split_compounds
from caramel.sources.world.drawing import draw_scene, encode_png
from caramel.sources.world.grammar import parse_caption, realise_caption
from caramel.sources.world.planning import can_be_shown, plan_scene
from caramel.sources.world.sampling import sample_pairs
from caramel.sources.world.scenes import Scene
from caramel.training.recipes.pretrain import FIXED, pretrain_base
from caramel.utils.typed_settings import build_settings

SUBTYPES = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "only_obj")
PLAIN: dict[str, Any] = {"absolute_positions": 0.0, "group_size": 1}
JOINT: dict[str, Any] = {"image_steps": 0, "block_size": 1, "batch_size": 256, "steps": 800}
# Changes of each arm in scenes and training; everything else is as in params.yaml.
ARMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as before: independent scenes, both towers together": (PLAIN, JOINT),
    "1,600 steps": (PLAIN, {**JOINT, "steps": 1600}),
    "groups of siblings": ({**PLAIN, "group_size": 8}, {**JOINT, "block_size": 8}),
    "absolute positions": ({**PLAIN, "absolute_positions": 0.5}, JOINT),
    "groups and positions": ({}, {**JOINT, "block_size": 8}),
    "locked image tower": (PLAIN, {"block_size": 1}),
    "locked image tower, groups": ({**PLAIN, "group_size": 8}, {}),
    "locked image tower, positions": ({**PLAIN, "absolute_positions": 0.5}, {"block_size": 1}),
    "locked image tower, groups and positions": ({}, {}),
    "the same, groups of 4": ({"group_size": 4}, {"block_size": 4}),
    "the same, images 800 and texts 1,000 steps": ({}, {"image_steps": 800, "steps": 1000}),
    "the same, batch 256, half the steps": ({}, {"image_steps": 300, "steps": 400, "batch_size": 256}),
}


@dataclass(frozen=True)
class World:
    """Pairs of all splits and their images."""

    pairs: pd.DataFrame
    images: Mapping[str, bytes]


def draw_world(settings: Mapping[str, Any], changed: Mapping[str, Any]) -> World:
    """Return a world drawn with the settings of section ``scenes`` and some changes."""
    images: dict[str, bytes] = {}

    def save_image(image_id: str, data: bytes, path: str, **row: Any) -> None:
        images[image_id] = data

    known = {
        key: settings[key]
        for key in ("num_objects", "allow_unmentioned_objects", "unseen_frac", "typical_color_prob", "seed")
    }
    known |= {key: settings[key] for key in ("absolute_positions", "group_size")} | dict(changed)
    counts = {split: settings[split] for split in ("train", "val", "test")}
    return World(sample_pairs(counts=counts, **known, put=save_image).pairs, images)


def make_instances(pairs: pd.DataFrame, number: int, seed: int) -> pd.DataFrame:
    """Return at most ``number`` test instances of each subtype: captions c0, c1 and encoded images i0, i1."""
    tested = list_split_compounds(pairs)[1]
    test = pairs[pairs["split"] == "test"]
    rows = []
    for subtype_index, subtype in enumerate(SUBTYPES):
        count = 0
        for index, (caption, text) in enumerate(zip(test["caption"], test["scene"], strict=True)):
            rng = np.random.default_rng([seed, subtype_index, index])
            parsed, scene = parse_caption(caption), Scene.from_json(text)
            assert parsed is not None
            negative = write_negative(
                parsed,
                scene,
                subtype,
                rng,
                max_attempts=20,
                allow_unmentioned_objects=False,
                may_stand=partial(can_be_shown, split="test", kept_out=tested, unless=parsed.whole),
            )
            if isinstance(negative, str):
                continue
            other = plan_scene(
                negative[0], parsed, scene, rng, partial(is_allowed_in_split, split="test", kept_out=tested)
            )
            if other is None:
                continue
            pictures = (encode_png(draw_scene(image_scene, rng)) for image_scene in (scene, other))
            rows.append((subtype, caption, realise_caption(negative[0]), *pictures))
            count += 1
            if count == number:
                break
    return pd.DataFrame(rows, columns=["subtype", "c0", "c1", "i0", "i1"])


def compute_group(encoder: Any, instances: pd.DataFrame) -> pd.Series[float]:
    """Return Group in per cent by subtype."""
    captions, images = ([instances[name] for name in names] for names in (("c0", "c1"), ("i0", "i1")))
    return score_group(encoder, captions, images).groupby(instances["subtype"].to_numpy()).mean()


def run_arm(name: str, instances: pd.DataFrame, config: Any, seed: int) -> dict[str, Any]:
    """Train the base of an arm and return its row of the table."""
    scenes_changed, training_changed = ARMS[name]
    world = draw_world(config.scenes.model_dump(), scenes_changed)
    settings = config.pretrain.model_dump(exclude={"backend", "pretrained", "negatives", "epochs"}) | FIXED
    settings |= {"device": config.run.device, "precision": config.run.precision, "num_workers": 0}
    settings |= {"seed": seed} | training_changed
    texts = [*world.pairs["caption"], *instances["c1"]]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "base")
        start = time.process_time()
        pretrain_base(
            world.pairs,
            world.images,
            texts,
            pretrained=None,
            settings=build_settings(BaseConfig, settings),
            scratch=Path(folder, "scratch"),
            out=out,
        )
        seconds = time.process_time() - start
        encoder = load_encoder(str(out), device="cpu", precision="fp32", name="base")
        group = compute_group(encoder, instances)
        return {
            "arm": name,
            "seed": seed,
            **group.round(1),
            "cpu_s": round(seconds),
        }


@click.command()
@click.option("--only", multiple=True, help="Arms to run, by a part of their names. Default: all.")
@click.option("--seeds", default=1, show_default=True, help="Number of bases per arm.")
@click.option(
    "--instances", "number", default=250, show_default=True, help="Maximum test instances of each subtype."
)
@click.option(
    "--out", default="work/base_experiments.csv", show_default=True, type=click.Path(path_type=Path)
)
def main(only: tuple[str, ...], seeds: int, number: int, out: Path) -> None:
    """Print and write the table."""
    config = load_config()
    world = draw_world(config.scenes.model_dump(), {"absolute_positions": 0.0})
    instances = make_instances(world.pairs, number, seed=2)
    names = [name for name in ARMS if not only or any(part in name for part in only)]
    drawn = range(config.pretrain.seed, config.pretrain.seed + seeds)
    write_rows((run_arm(name, instances, config, seed) for name in names for seed in drawn), out)


if __name__ == "__main__":
    main()
