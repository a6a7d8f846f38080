"""Measure gain and loss of fine-tuning for WiSE-FT and LoRA: their tables in docs/results.md.

    python bench/retention.py wise     # mixtures of base and fine-tuned weights, of each variant and seed
    python bench/retention.py lora     # trains low-rank updates too, and compares them with full training

It runs after the default profile, and uses that run's base, pairs and fine-tuned models.

- Gain: Group on the test instances except *add*.
- Loss: R@1 of held-out retrieval, the mean of both directions.

Both are changes from the base in percentage points, the mean over seeds. Their 95 % intervals cover images
and seeds (``paired_tests``), paired on the instances. The distance of the weights does not depend on images;
its interval is a t interval over the seeds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from caramel.benchmarks.metrics import compute_outcomes
from caramel.config.schema import load_config
from caramel.config.sections.training import Finetune
from caramel.evaluation.results.paired_tests import compare_hits
from caramel.evaluation.results.summary import align_runs
from caramel.evaluation.score_model import LoadedBenchmark, compute_live_similarities, load_checked_benchmark
from caramel.evaluation.weight_distance import compute_weight_distance
from caramel.io.image_store import ImageStore
from caramel.models.open_clip.checkpoints import load_checkpoint, save_checkpoint
from caramel.models.open_clip.config import Clip
from caramel.models.open_clip.encoder import ClipEncoder
from caramel.registry import METHODS
from caramel.runtime.environment import be_quiet
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.training.data.examples import load_examples
from caramel.training.data.row_units import RowCounts
from caramel.training.loop.contrastive import compute_validation_metrics, train_clip
from caramel.training.variants import GRID_KEYS, resolve_variant, split_rows
from caramel.training.weight_averaging import interpolate_weights
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import summarise_seeds

BASE, ASSEMBLED, SCENES = Path("data/base"), Path("data/assemble"), Path("data/scenes")
MEASURES = {"group": "Group", "kept": "R@1"}
# For each: its metric, the subset of the table, and what that averages, if anything.
MEASURE_SPECS = {"group": ("group", "without_add", ()), "kept": ("recall@1", "macro", ("i2t", "t2i"))}
TITLES = {**MEASURES, "weights": "weights moved, %"}
FASTER = 10  # times the learning rate of full training, as FSC-CLIP uses for low-rank updates
Rows = list[dict[str, Any]]


def load_benchmarks(retrieval_images: int, seed: int) -> dict[str, LoadedBenchmark]:
    """Return both benchmarks with checked images."""
    held_out = {"split": "test", "count": retrieval_images, "seed": seed}
    return {
        "group": load_checked_benchmark("instances", ASSEMBLED, None, None, {"split": "test"}),
        "kept": load_checked_benchmark("held_out_retrieval", SCENES, None, None, held_out),
    }


def compute_similarities(clip: Clip, on: Mapping[str, LoadedBenchmark]) -> dict[str, pd.DataFrame]:
    """Return a model's table ``similarities`` by measure."""
    model = ClipEncoder(clip, "cpu", "fp32", "model")
    return {name: compute_live_similarities(model, task, 256) for name, task in on.items()}


def compute_change(a: Sequence[pd.DataFrame], b: Sequence[pd.DataFrame], measure: str) -> pd.Series:
    """Return how a differs from b by a measure: ``difference``, ``ci_low``, ``ci_high``, ``value_a``, ``value_b``.

    Args:
        a: tables ``similarities``, one per seed.
        b: one table, of the base; or one per seed of a, trained with the same seed: then each pair gives one
        difference.
        measure: of ``MEASURES``.
    """
    metric, subset, parts = MEASURE_SPECS[measure]
    runs = align_runs([*a, *b])
    hits = np.stack([compute_outcomes(rows, [metric]).hits.to_numpy(float) for rows in runs])
    of_a, of_b = hits[: len(a)], hits[len(a) :]
    if len(b) > 1:
        of_a, of_b = of_a - of_b, np.zeros_like(of_b[:1])
    comparison = compare_hits(of_a, of_b, a[0], [metric], parts.__contains__, bootstrap=Bootstrap(1000, 0))
    return comparison[comparison["subset"] == subset].iloc[0]


def format_change(comparison: pd.Series) -> str:
    """Return a difference with its interval, in percentage points."""
    return f"{100 * comparison['difference']:+.1f} ({100 * comparison['ci_low']:.1f} to {100 * comparison['ci_high']:.1f})"


def format_table(rows: Rows, by: list[str], base: Mapping[str, pd.DataFrame]) -> str:
    """Return a Markdown table: a row for each group with its changes from the base over seeds, and its weight distance."""
    further = [name for name in ("weights",) if name in rows[0]]
    lines = [
        "| " + " | ".join([*by, *MEASURES.values(), *(TITLES[m] for m in further)]) + " |",
        "|" + "---|" * (len(by) + len(MEASURES) + len(further)),
    ]
    for key, group in group_rows(rows, by).items():
        cells = [format_change(compute_change([row[m] for row in group], [base[m]], m)) for m in MEASURES]
        for name in further:
            far = summarise_seeds(np.array([row[name] for row in group]))
            cells.append(f"{100 * far.mean:.1f} ({100 * far.low:.1f} to {100 * far.high:.1f})")
        lines.append("| " + " | ".join([*map(str, key), *cells]) + " |")
    return "\n".join(lines)


def group_rows(rows: Rows, by: Sequence[str]) -> dict[tuple[Any, ...], Rows]:
    """Return the rows grouped by these columns, in order."""
    grouped: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        grouped.setdefault(tuple(row[name] for name in by), []).append(row)
    return grouped


def write_values(rows: Rows, path: Path) -> None:
    """Write the value of each run as CSV."""
    plain = [
        {**row, **{m: compute_change([row[m]], [row[m]], m)["value_a"] for m in MEASURES}} for row in rows
    ]
    pd.DataFrame(plain).to_csv(path, index=False)


def plot_tradeoff(rows: Rows, base: Mapping[str, pd.DataFrame], path: Path) -> None:
    """Draw gain against loss: a curve for each variant, a point for each mixture, bars for the intervals."""
    figure = Figure(figsize=(6, 4.2), layout="constrained")
    axis = figure.subplots()
    for (variant,), of_variant in group_rows(rows, ["variant"]).items():
        by_alpha = group_rows(of_variant, ["alpha"])
        points = {
            m: [compute_change([r[m] for r in g], [base[m]], m) for g in by_alpha.values()] for m in MEASURES
        }
        x, y = ([100 * p["difference"] for p in points[m]] for m in ("kept", "group"))
        wide, high = ([100 * (p["difference"] - p["ci_low"]) for p in points[m]] for m in ("kept", "group"))
        axis.errorbar(
            x, y, yerr=high, xerr=wide, marker="o", ms=4, lw=1.5, elinewidth=0.6, label=str(variant)
        )
        alphas = [alpha for (alpha,) in by_alpha]
        for n in (0, len(alphas) // 2, len(alphas) - 1):
            axis.annotate(f"α {alphas[n]:g}", (x[n], y[n]), (4, 4), textcoords="offset points", fontsize=8)
    axis.axhline(0, color="grey", lw=0.8)
    axis.axvline(0, color="grey", lw=0.8)
    axis.set(
        xlabel="R@1 of held-out retrieval, against the base", ylabel="Group without add, against the base"
    )
    axis.grid(alpha=0.3)
    axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def evaluate_wise_ft(
    settings: Finetune,
    on: Mapping[str, LoadedBenchmark],
    base: Mapping[str, pd.DataFrame],
    variants: Sequence[str],
    alphas: Sequence[float],
    out: Path,
) -> None:
    """Print gain and loss of mixtures and the best one on val; draw the curves."""
    before = load_checkpoint(BASE).model.state_dict()
    _, val = split_rows(ASSEMBLED / "training.parquet")
    rows: Rows = []

    def score_mixture(clip: Clip, alpha: float) -> Mapping[str, pd.DataFrame]:
        return compute_similarities(clip, on) if alpha else base

    for variant in variants:
        for seed in settings.seeds:
            clip = load_checkpoint(f"data/finetune/{variant}-{seed}")
            after = {name: value.clone() for name, value in clip.model.state_dict().items()}
            examples = load_examples(clip, val, load_images(), method=METHODS["trohn_img"])
            for alpha in alphas:
                clip.model.load_state_dict(interpolate_weights(before, after, alpha))
                clip.model.eval()
                on_val = compute_validation_metrics(clip, examples, "cpu", "fp32")["group"]
                rows.append(
                    {
                        "variant": variant,
                        "seed": seed,
                        "alpha": alpha,
                        "val": on_val,
                        **score_mixture(clip, alpha),
                    }
                )
            click.echo(f"{variant}-{seed}", err=True)
    write_values(rows, out.with_suffix(".csv"))
    chosen = [
        max(group, key=lambda row: row["val"]) for group in group_rows(rows, ["variant", "seed"]).values()
    ]
    for title, part in (
        ("each mixture", rows),
        ("that of each seed which is best on val", [{**row, "alpha": "best"} for row in chosen]),
    ):
        click.echo(f"\n{title}:\n\n{format_table(part, ['variant', 'alpha'], base)}")
    best = {
        name: [row["alpha"] for row in group] for (name,), group in group_rows(chosen, ["variant"]).items()
    }
    click.echo(f"\nbest on val: {best}")
    plot_tradeoff(rows, base, out)


def load_images() -> ImageStore:
    """Return the images of the pairs."""
    return ImageStore(ASSEMBLED / "images.parquet", read_table(IMAGES, ASSEMBLED / "images.parquet"))


def train_lora(variant: str, seed: int, settings: Finetune) -> tuple[Clip, int]:
    """Return the base trained by corrections of low rank, and how many numbers were trained."""
    clip = load_checkpoint(BASE)
    train, val = split_rows(ASSEMBLED / "training.parquet")
    common = settings.model_dump(exclude=set(GRID_KEYS))
    common |= {"trainable": "lora", "lr": settings.lr * FASTER, "device": "cpu", "precision": "auto"}
    point = {"variant": variant, "seed": seed}
    config = resolve_variant(point, common, counts=RowCounts.from_rows(train), num_workers=0)
    examples, validation = (
        load_examples(clip, rows, load_images(), method=of)
        for rows, of in ((train, config.method), (val, METHODS["trohn_img"]))
    )
    numbers: list[int] = []

    def count_trainable(points: object) -> None:
        numbers.append(sum(p.numel() for p in clip.model.parameters() if p.requires_grad))

    with tempfile.TemporaryDirectory() as scratch:
        train_clip(
            clip, examples, [validation], config.training, scratch=Path(scratch), title=f"{variant}-{seed}",
            select="group", on_points=count_trainable,
        )  # fmt: skip
    return clip, numbers[0]


def evaluate_lora(
    settings: Finetune,
    on: Mapping[str, LoadedBenchmark],
    base: Mapping[str, pd.DataFrame],
    variants: Sequence[str],
) -> None:
    """Print gain, loss and weight distance of both ways of training, and their differences by seed."""
    rows: Rows = []
    for variant in variants:
        for seed in settings.seeds:
            full = load_checkpoint(f"data/finetune/{variant}-{seed}")
            low, number = train_lora(variant, seed, settings)
            for way, clip in (("full", full), ("LoRA", low)):
                with tempfile.TemporaryDirectory() as folder:
                    vocabulary = (
                        (BASE / "bpe.txt.gz").read_bytes() if (BASE / "bpe.txt.gz").exists() else None
                    )
                    save_checkpoint(
                        Path(folder, "c"),
                        clip.model,
                        config=clip.config,
                        vocabulary=vocabulary,
                        card={},
                        tokenizer=clip.tokenize,
                    )
                    far = compute_weight_distance(BASE, Path(folder, "c"))
                rows.append(
                    {
                        "variant": variant,
                        "seed": seed,
                        "trained": way,
                        "weights": far,
                        **compute_similarities(clip, on),
                    }
                )
            click.echo(
                f"{variant}-{seed}: {number} of {sum(p.numel() for p in full.model.parameters())}", err=True
            )
    write_values(rows, Path("work/lora.csv"))
    click.echo(format_table(rows, ["variant", "trained"], base))
    click.echo("\nLoRA minus full, by seed:\n")
    for (variant,), group in group_rows(rows, ["variant"]).items():
        by_lora, by_all = ([row for row in group if row["trained"] == way] for way in ("LoRA", "full"))
        changes = [
            f"{MEASURES[m]} {format_change(compute_change([r[m] for r in by_lora], [r[m] for r in by_all], m))}"
            for m in MEASURES
        ]
        click.echo(f"{variant}: {', '.join(changes)}")


@click.command()
@click.argument("what", type=click.Choice(["wise", "lora"]))
@click.option("--variant", multiple=True, help="Variants of finetune.variants. Default: all.")
@click.option(
    "--points", default=11, show_default=True, help="Number of mixtures of `wise`, evenly from 0 to 1."
)
@click.option(
    "--out", default="work/wise_ft.png", type=click.Path(path_type=Path), help="Image file of `wise`."
)
def main(what: str, variant: tuple[str, ...], points: int, out: Path) -> None:
    """Measure gain and loss of fine-tuning for WiSE-FT mixtures or LoRA."""
    be_quiet()
    torch.set_num_threads(1)
    config = load_config()
    on = load_benchmarks(config.evaluate.retrieval_images, config.evaluate.seed)
    variants = variant or config.finetune.variants
    base = compute_similarities(load_checkpoint(BASE), on)
    for name, title in MEASURES.items():
        click.echo(
            f"{title} of the base {100 * compute_change([base[name]], [base[name]], name)['value_b']:.1f}"
        )
    if what == "wise":
        evaluate_wise_ft(config.finetune, on, base, variants, [n / (points - 1) for n in range(points)], out)
    else:
        evaluate_lora(config.finetune, on, base, variants)


if __name__ == "__main__":
    main()
