"""Run CREPE on the embedded world, for the figures of docs/results.md.

`python bench/crepe.py OUT --seeds 1 2 3` runs all steps for each seed; an existing base is not trained again:

    train     draws scenes of 2 to 5 objects on a 4 × 4 grid, without some compounds, a noun and a colour, and trains a
              CLIP from scratch on captions of up to 6 atoms
    release   writes CREPE's two sets from other scenes without these restrictions, in the released form
    score     runs `caramel eval` on them for two models: the seed's own, and the next seed's, which had other words and
              compounds held out

`python bench/crepe_figures.py OUT --seeds 1 2 3` prints the tables and draws the curves.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from caramel.crepe import productivity, systematicity
from caramel.crepe.caption_template import write_template_caption
from caramel.crepe.corpus_index import build_index
from caramel.crepe.crops import CropRules
from caramel.crepe.foils import CaptionedGraph
from caramel.crepe.subgraph_sampling import sample_subgraph
from caramel.crepe.systematicity import RegionExample, is_compound
from caramel.crepe.visual_genome_graphs import ImageGraph
from caramel.crepe.world_graphs import (
    PIXELS,
    WorldThesaurus,
    build_graph,
    draw_tiled_image,
    sample_grid_scene,
    select_pair_relations,
)
from caramel.interfaces.scene_graph import Compound, SceneGraph
from caramel.schemas.pairs import PAIRS
from caramel.sources.world.grammar import PREPOSITION
from caramel.sources.world.scenes import COLOURS, INVERSE, NOUNS, Scene

TRAIN, VAL = 16_000, 512  # scenes
TEST = 400  # scenes of the productivity set
REGIONS, PER_SCENE = (
    1_600,
    6,
)  # scenes of the systematicity set, which include these, and walks through each
IMAGES_PER_COMPOUND = 10  # per compound at most: the world has few compounds, and many images of each
OBJECTS = (2, 3, 4, 5)
CAPTION_ATOMS = (1, 2, 3, 4, 5, 6)  # atoms of training captions
COLOUR_SHARE, RELATION_SHARE = 0.12, 0.06  # shares of compounds held out from training
CLIP = {
    "embed_dim": 128,
    "quick_gelu": False,
    "custom_text": True,
    "vision_cfg": {"image_size": PIXELS, "layers": 4, "width": 128, "head_width": 32, "patch_size": 24},
    "text_cfg": {"context_length": 64, "width": 128, "heads": 4, "layers": 2},
}


def choose_held_out(seed: int) -> tuple[list[str], frozenset[Compound]]:
    """Return the words in training, and the compounds of them that are held out."""
    rng = np.random.default_rng([seed, 0])
    unseen = {NOUNS[int(rng.integers(len(NOUNS)))], COLOURS[int(rng.integers(len(COLOURS)))]}
    words = [word for word in (*NOUNS, *COLOURS) if word not in unseen]
    nouns, colours = ([w for w in known if w in words] for known in (NOUNS, COLOURS))
    looks = list(itertools.product(colours, nouns))
    spatial_triples = [
        (a, relation, b) for a, b in itertools.permutations(nouns, 2) for relation in ("left", "above")
    ]
    chosen: set[Compound] = set()
    for i in rng.permutation(len(looks))[: round(COLOUR_SHARE * len(looks))].tolist():
        chosen.add(looks[i])
    for i in rng.permutation(len(spatial_triples))[: round(RELATION_SHARE * len(spatial_triples))].tolist():
        a, relation, b = spatial_triples[i]
        chosen |= {(a, PREPOSITION[relation], b), (b, PREPOSITION[INVERSE[relation]], a)}
    return words, frozenset(chosen)


def render_jpeg(scene: Scene, rng: np.random.Generator) -> bytes:
    """Return the image of a scene as a JPEG."""
    buffer = io.BytesIO()
    Image.fromarray(draw_tiled_image(scene, rng)).save(buffer, "JPEG", quality=95, subsampling=0)
    return buffer.getvalue()


def build_training_pairs(seed: int) -> tuple[pd.DataFrame, dict[str, bytes]]:
    """Return table ``pairs`` of train and val, and the images."""
    words, without = choose_held_out(seed)
    rows, images = [], {}
    for number, (split, count) in enumerate({"train": TRAIN, "val": VAL}.items(), 1):
        for index in range(count):
            rng = np.random.default_rng([seed, number, index])
            scene = sample_grid_scene(rng, int(rng.choice(OBJECTS)), words=words, without=without)
            subgraph = None
            while subgraph is None:
                subgraph = sample_subgraph(
                    select_pair_relations(build_graph(scene), rng), int(rng.choice(CAPTION_ATOMS)), rng
                )
            name = f"{split}-{index:06d}"
            rows.append((name, name, write_template_caption(subgraph).text, scene.to_json(), split, "world"))
            images[name] = render_jpeg(scene, rng)
    return pd.DataFrame(rows, columns=list(PAIRS.columns)), images


def train_base(out: Path, seed: int, steps: int) -> None:
    """Train the base of a seed and write its checkpoint, unless it is there."""
    from caramel.interfaces.training_settings import BaseConfig
    from caramel.training.recipes.pretrain import FIXED, pretrain_base
    from caramel.utils.typed_settings import build_settings

    if (out / "base").is_dir():
        return
    out.mkdir(parents=True, exist_ok=True)
    pairs, images = build_training_pairs(seed)
    pairs[pairs["split"] == "train"][["caption"]].to_parquet(out / "captions.parquet")
    model = out / "clip.json"
    model.write_text(json.dumps(CLIP))
    given = {
        **FIXED, "betas": (0.9, 0.98), "eps": 1e-6, "grad_clip_norm": 1.0,
        "model": str(model), "seed": seed, "image_steps": 0, "steps": steps, "batch_size": 128, "block_size": 1,
        "lr": 1.5e-3, "warmup_steps": 100, "weight_decay": 0.1, "checkpoint_every": 200, "device": "cpu", "precision": "auto",
        "num_workers": 0,
    }  # fmt: skip
    curve = pretrain_base(
        pairs,
        images,
        pairs.loc[pairs["split"] == "train", "caption"],
        pretrained=None,
        settings=build_settings(BaseConfig, given),
        scratch=out / "scratch",
        out=out / "base",
    )
    pd.DataFrame(curve).to_csv(out / "curve.csv", index=False)


def write_benchmarks(out: Path, seed: int) -> None:
    """Write both of CREPE's sets, from other scenes with all words and compounds, and their images."""
    words, folder = WorldThesaurus(), out / "images" / "VG_100K"
    folder.mkdir(parents=True, exist_ok=True)
    whole: dict[str, SceneGraph] = {}
    annotated_images = []
    for index in range(REGIONS):
        rng = np.random.default_rng([seed, 3, index])
        scene = sample_grid_scene(rng, int(rng.choice(OBJECTS[1:])))
        (folder / f"{index}.jpg").write_bytes(render_jpeg(scene, rng))
        graph = build_graph(scene)  # crops are whole images, because the model was trained on whole images
        boxed = replace(graph, nodes=tuple(replace(n, box=(0, 0, PIXELS, PIXELS)) for n in graph.nodes))
        whole[str(index)] = boxed
        annotated_images.append(ImageGraph(str(index), PIXELS, PIXELS, select_pair_relations(boxed, rng)))
    atoms = {atom for graph in whole.values() for atom in graph.list_atoms()}
    corpus_index = build_index(out / "captions.parquet", atoms, column="caption", folder=out / "index")

    def iter_regions() -> Iterator[RegionExample]:
        compound_counts: Counter[tuple[object, ...]] = Counter()
        for picture_ in annotated_images:
            rng = np.random.default_rng([seed, 4, int(picture_.image_id)])
            of_picture: set[tuple[object, ...]] = set()
            for number in range(PER_SCENE):
                part = sample_subgraph(picture_.graph, 2 + number % 2, rng)
                if not part or not is_compound(part) or part.canonicalise() in of_picture:
                    continue
                of_picture.add(part.canonicalise())
                compound_counts[part.canonicalise()] += 1
                if compound_counts[part.canonicalise()] <= IMAGES_PER_COMPOUND:
                    box = (0, 0, PIXELS, PIXELS)
                    yield RegionExample(
                        picture_.image_id,
                        box,
                        CaptionedGraph(write_template_caption(part), part, whole[picture_.image_id]),
                    )

    rejects: list[object] = []
    data = out / "data"
    output_settings: dict[str, Any] = {"seed": seed, "reject": rejects.append, "sampling": "pool"}
    print(
        systematicity.write_systematicity_files(
            iter_regions, words, corpus_index, data / "crepe_systematicity", name="world", **output_settings
        )
    )
    rules = CropRules(area=0)
    every = range(4, 13)
    drafted = productivity.sample_drafts(
        annotated_images[:TEST],
        complexities=every,
        tries=1,
        most=TEST,
        rules=rules,
        seed=seed,
        reject=rejects.append,
    )
    drafted = {n: [d._replace(whole=whole[d.image_id]) for d in drafts] for n, drafts in drafted.items()}
    print(
        productivity.write_productivity_files(drafted, words, data / "crepe_productivity", **output_settings)
    )


def score_models(out: Path, other: Path) -> None:
    """Score a seed's base and another one's on the written sets with `caramel eval`."""
    command = ["caramel", "eval", "--data", str(out / "data"), "--images", str(out / "images")]
    for name, base in {"own": out / "base", "other": other / "base"}.items():
        command += ["--model", f"{name}=open_clip:{base}"]
    command += ["--benchmark", "crepe_systematicity,crepe_productivity", "--n-bootstrap", "100"]
    subprocess.run([*command, "--out", str(out / "scores")], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=800)
    given = parser.parse_args()
    folders = {seed: given.out / f"seed{seed}" for seed in given.seeds}
    for one, place in folders.items():
        train_base(place, one, given.steps)
        write_benchmarks(place, one)
    for place, following in itertools.pairwise([*folders.values(), folders[given.seeds[0]]]):
        score_models(place, following)
