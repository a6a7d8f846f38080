"""Train a small CLIP and score it every few steps on a benchmark: `python bench/in_training_loop.py`.

The loop is independent of caramel, which it uses for ``load_benchmark``, ``score`` and ``compare``. Captions
and images come from the embedded world, so nothing is downloaded. The benchmark consists of scenes that are
held out from training. Beside other heavy work it took ten minutes on two cores, most of it for the steps.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import open_clip
import torch
from PIL import Image

import caramel
from caramel.evaluation.score_model import Scores
from caramel.sources.captions.scene_writer import world_negatives
from caramel.sources.world.sampling import sample_pairs

CONFIG: dict[str, Any] = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 48, "layers": 2, "width": 64, "head_width": 16, "patch_size": 12},
    "text_cfg": {"context_length": 48, "width": 64, "heads": 4, "layers": 2},
}
SIZE = 48  # pixels


def write_world_benchmark(train: int, test: int, folder: Path) -> tuple[list[str], list[Image.Image]]:
    """Write a benchmark in SugarCrepe's format to the folder; return captions and images to train on."""
    counts = {"train": train, "val": 1, "test": test}
    files: dict[str, bytes] = {}

    def save_image(image_id: str, data: bytes, path: str, **known: object) -> None:
        files[image_id] = data

    source = sample_pairs(
        counts=counts,
        num_objects=(1, 2, 3),
        allow_unmentioned_objects=False,
        unseen_frac=0.125,
        typical_color_prob=0.5,
        absolute_positions=0.5,
        group_size=8,
        seed=1,
        put=save_image,
    )
    held_out = source.pairs[source.pairs["split"] == "test"]
    negatives = world_negatives(
        held_out, data_dir="", seed=2, max_attempts=20, allow_unmentioned_objects=False
    ).negatives
    rows = negatives.merge(held_out, on="pair_id")
    for subtype, part in rows.groupby("subtype"):
        named = part.assign(filename=part["image_id"] + ".png")[["filename", "caption", "negative_caption"]]
        text = json.dumps({str(n): row for n, row in enumerate(named.to_dict("records"))})
        (folder / f"{subtype}.json").write_text(text, encoding="utf-8")
    for name in held_out["image_id"]:
        (folder / f"{name}.png").write_bytes(files[name])
    train_rows = source.pairs[source.pairs["split"] == "train"]
    return train_rows["caption"].tolist(), [
        Image.open(io.BytesIO(files[name])) for name in train_rows["image_id"]
    ]


def train_clip(
    captions: list[str], pictures: list[Image.Image], steps: int, every: int, score: Callable[..., Scores]
) -> list[Scores]:
    """Train a small CLIP with an independent loop; return its scores before training and every few steps."""
    torch.manual_seed(0)
    model = open_clip.CLIP(**CONFIG).train()
    tokenizer = open_clip.SimpleTokenizer(context_length=CONFIG["text_cfg"]["context_length"])
    preprocess = open_clip.image_transform(SIZE, is_train=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images, tokens = torch.stack([preprocess(picture) for picture in pictures]), tokenizer(captions)
    scores = [score(model, tokenizer=tokenizer, preprocess=preprocess, name="step 0")]
    draws = np.random.default_rng(0)
    for step in range(1, steps + 1):
        batch = torch.from_numpy(draws.choice(len(images), 64, replace=False))
        features = model(images[batch], tokens[batch])
        loss = open_clip.ClipLoss()(*features)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == 0:
            start = time.perf_counter()
            scores.append(score(model, tokenizer=tokenizer, preprocess=preprocess, name=f"step {step}"))
            assert model.training
            seconds = time.perf_counter() - start
            accuracy = scores[-1].overall["accuracy"]
            click.echo(
                f"step {step:4}  loss {loss.item():.3f}  accuracy {100 * accuracy:.1f} %  ({seconds:.1f} s)"
            )
    return scores


@click.command()
@click.option("--steps", default=600, show_default=True, help="Training steps.")
@click.option("--every", default=200, show_default=True, help="Steps between two evaluations.")
@click.option("--pairs", default=1500, show_default=True, help="Training pairs.")
def main(steps: int, every: int, pairs: int) -> None:
    """Train, score every few steps, and report whether the last model is better than the first."""
    with tempfile.TemporaryDirectory() as folder:
        captions, pictures = write_world_benchmark(pairs, 150, Path(folder))
        benchmark = caramel.load_benchmark("sugarcrepe", folder)
        click.echo(f"{len(benchmark)} instances, {len(captions)} pairs to train on")

        def score_model(model: Any, **parts: Any) -> Scores:
            return caramel.score(model, benchmark, **parts)

        scores = train_clip(captions, pictures, steps, every, score_model)
    last = scores[-1].metrics.set_index("subset")[["value", "ci_low", "ci_high", "n", "ties"]]
    click.echo(f"\n{last.round(3).to_string()}\n")
    rows = caramel.compare(scores[-1].similarities, scores[0].similarities)
    overall: Any = rows.set_index("subset").loc["all"]
    click.echo(
        f"step {steps} minus step 0: {100 * overall['difference']:+.1f} points "
        f"[{100 * overall['ci_low']:.1f}, {100 * overall['ci_high']:.1f}], p {overall['p_holm']:.4f}"
    )


if __name__ == "__main__":
    main()
