"""Measure overlap and artifacts of the embedded world's benchmark: `python bench/world.py [PROJECT]`.

The project's default or smoke profile must have run. Printed are

- the share of test that is in train, by exact text, by meaning and by scene, rendered or planned;
- the share of chosen images that are valid images of the world;
- how often the number of colours separates the negative image from the positive one.

It reads tables of any version, so that versions before and after a change can be compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np
import pandas as pd

from caramel.gates.split_leakage import parse_meaning
from caramel.io.image_codec import decode_center_crop
from caramel.io.image_store import ImageStore
from caramel.sources.world.compounds import list_scene_compounds, list_split_compounds
from caramel.sources.world.drawing import CANVAS
from caramel.sources.world.exact_reader import read_images
from caramel.sources.world.grammar import parse_caption
from caramel.sources.world.scenes import Scene, SceneObject


@click.command()
@click.argument("project", default=".", type=click.Path(exists=True, file_okay=False))
def main(project: str) -> None:
    """Print the results for the finished PROJECT."""
    data = Path(project, "data")
    rows = pd.read_parquet(data / "refine/negatives.parquet").merge(
        pd.read_parquet(data / "refine/pairs.parquet"), on="pair_id"
    )
    rows = rows.merge(pd.read_parquet(data / "refine/paraphrases.parquet"), on="pair_id", how="left")
    source = pd.read_parquet(data / "scenes/pairs.parquet")
    print_text_overlap(rows)
    print_scene_overlap(source)
    candidates = pd.read_parquet(data / "synthesize/candidates.parquet")
    if "scene" in candidates:
        drawn = candidates.merge(rows[["negative_id", "split"]], on="negative_id").dropna(subset="scene")
        print_planned_overlap(drawn.drop_duplicates("negative_id"), source)
    images = load_files(data / "assemble/images.parquet")
    for form in ("instances", "instances_source"):
        path = data / f"assemble/{form}.parquet"
        if path.exists():
            print_image_stats(form, pd.read_parquet(path).query("split == 'test'"), images)


def load_files(index: Path) -> Mapping[str, bytes]:
    """Return image_id -> encoded file; an older table holds the files itself."""
    rows = pd.read_parquet(index)
    if "image" not in rows:
        return ImageStore(index, rows)
    return {name: image["bytes"] for name, image in zip(rows["image_id"], rows["image"], strict=True)}


def print_text_overlap(rows: pd.DataFrame) -> None:
    """Print the number of test rows whose text, exactly or in meaning, is in train."""
    test, train = rows[rows["split"] == "test"], rows[rows["split"] == "train"]
    columns = ("caption", "negative_caption", "caption2")
    known = {text for column in columns for text in train[column].dropna()}
    meant = {parse_meaning(text) for text in known} - {None}
    for column in columns:
        texts = test[column].dropna()
        for way, matches in (
            ("letter", texts.isin(known)),
            ("meaning", texts.map(parse_meaning).isin(meant)),
        ):
            print(f"test {column} that train has, by {way}: {100 * matches.mean():.1f} % of {len(texts)}")


def print_scene_overlap(source: pd.DataFrame) -> None:
    """Print the number of test scenes that are in train on another background."""
    known = {parse_objects(text) for text in source.loc[source["split"] == "train", "scene"]}
    test = {parse_objects(text) for text in source.loc[source["split"] == "test", "scene"]}
    for objects in (1, 2, 3):
        scenes = [scene for scene in test if len(scene) == objects]
        same = 100 * sum(scene in known for scene in scenes) / max(1, len(scenes))
        print(
            f"test scenes of {objects} objects that train has on some background: {same:.1f} % of {len(scenes)}"
        )


def print_planned_overlap(drawn: pd.DataFrame, source: pd.DataFrame) -> None:
    """Print how many scenes planned for a split are shown in another, or show what is held out from it."""
    show = {
        (what, split): {parse_objects(text) for text in rows["scene"]}
        for what, table in (("rendered", source), ("planned", drawn))
        for split, rows in table.groupby("split")
    }
    for a, b in itertools.permutations(("train", "test"), 2):
        planned = show.get(("planned", a), set())
        for what in ("rendered", "planned"):
            same = len(planned & show.get((what, b), set()))
            print(
                f"scenes planned for {a} that are {what} for {b} on some background: {same} of {len(planned)}"
            )
    _, tested = list_split_compounds(source)
    scenes = drawn.loc[drawn["split"] != "test", "scene"]
    held = sum(bool(list_scene_compounds(Scene.from_json(text)) & tested) for text in scenes)
    print(f"scenes planned for train and val with a compound that only test shows: {held} of {len(scenes)}")


def parse_objects(scene: str) -> frozenset[SceneObject]:
    """Return the objects of a scene in their cells, without the background."""
    return frozenset(Scene.from_json(scene).things)


def print_image_stats(form: str, rows: pd.DataFrame, images: Mapping[str, bytes]) -> None:
    """Print statistics of the images of the test instances, and how far their colours reveal the negative."""
    sides = {
        side: np.stack([decode_center_crop(images[name], name, CANVAS) for name in rows[column]])
        for side, column in (("positive", "image_id"), ("negative", "negative_image_id"))
    }
    colours = {}
    for side, stack in sides.items():
        readings = read_images(stack)
        nouns = [[t.noun for t in r.scene.things] for r in readings]
        twice = np.mean([len(set(n)) < len(n) for n in nouns])
        unreadable = np.mean([r.unreadable > 0 for r in readings])
        captions = rows["caption" if side == "positive" else "negative_caption"]
        mention_counts = [len(parse_caption(text).whole.mentions) for text in captions]  # type: ignore[union-attr]
        more = np.mean([len(n) > k for n, k in zip(nouns, mention_counts, strict=True)])
        colours[side] = np.array([len(np.unique(p.reshape(-1, 3), axis=0)) for p in stack])
        low, high = np.percentile(colours[side], [5, 95]).astype(int)
        print(
            f"{form}, {side} images: repeated noun {100 * twice:.1f} %, unreadable cell "
            f"{100 * unreadable:.1f} %, unmentioned objects {100 * more:.1f} %;  {low} to {high} colours"
        )
    difference = colours["negative"] - colours["positive"]
    accuracy = np.mean(difference > 0) + np.mean(difference == 0) / 2
    print(
        f"{form}: the image with more colours is the negative one in {100 * accuracy:.1f} % of {len(rows)} instances"
    )


if __name__ == "__main__":
    main()
