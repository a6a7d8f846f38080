"""What a fine-tuning gains and loses, by what of its weights is kept: the tables of docs/training.md on WiSE-FT and LoRA.

    python benchmarks/retention.py wise     # mixtures of base and fine-tuned weights, of each variant and seed
    python benchmarks/retention.py lora     # trains corrections of low rank as well, and holds them against full training

After a run of the default profile, whose base, pairs and fine-tuned models they take. Gained: Group on the test instances that
are not *add*. Kept: R@1 of held-out retrieval, the mean of both directions. Means over seeds with their t intervals at 95 %; both are
per cent, and of differences from the base points of per cent.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pandas as pd
import torch
from matplotlib.figure import Figure

from caramel import tables
from caramel.config import Finetune, load
from caramel.evaluation.distances import moved
from caramel.evaluation.in_memory import LoadedBenchmark, loaded, scores
from caramel.models.clip.checkpoints import Clip, load_checkpoint, save_checkpoint
from caramel.models.clip.encoder import ClipEncoder
from caramel.registry import METHODS
from caramel.running.quiet import be_quiet
from caramel.statistics import over_seeds
from caramel.storage.image_store import Pictures
from caramel.training.batching.examples import load_examples
from caramel.training.fitting.averages import mixed
from caramel.training.fitting.contrastive import fit, hits
from caramel.training.variants import in_steps, set_up, split_rows

BASE, ASSEMBLED, SCENES = Path("data/base"), Path("data/assemble"), Path("data/scenes")
MEASURES = {"group": "Group", "kept": "R@1"}
TITLES = {**MEASURES, "weights": "weights moved, %"}
FASTER = 10  # times the rate of full training, as FSC-CLIP takes for corrections
Rows = list[dict[str, Any]]


def benchmarks(retrieval: int, seed: int) -> dict[str, LoadedBenchmark]:
    """Return both benchmarks, their images looked at."""
    held_out = {"split": "test", "count": retrieval, "seed": seed}
    return {
        "group": loaded("instances", ASSEMBLED, None, None, {"split": "test"}),
        "kept": loaded("held_out_retrieval", SCENES, None, None, held_out),
    }


def measured(clip: Clip, on: Mapping[str, LoadedBenchmark]) -> dict[str, float]:
    """Return what a model reaches, in [0, 1]."""
    model = ClipEncoder(clip, "cpu", "fp32", "model")
    of = {
        name: scores(model, task, batch=256, bootstrap=100, seed=0, out=None).metrics.set_index(
            ["metric", "subset"]
        )["value"]
        for name, task in on.items()
    }
    kept = of["kept"]["recall@1"]
    return {"group": of["group"]["group", "without_add"], "kept": (kept["i2t"] + kept["t2i"]) / 2}


def table(rows: pd.DataFrame, by: list[str], measures: list[str], base: Mapping[str, float]) -> str:
    """Return a table in Markdown: a row for each group, the mean over its seeds less that of the base."""
    lines = [
        "| " + " | ".join([*by, *(TITLES[m] for m in measures)]) + " |",
        "|" + "---|" * (len(by) + len(measures)),
    ]
    for key, group in rows.groupby(by, sort=False):
        cells = []
        for measure in measures:
            found = over_seeds(group[measure].to_numpy(float) - base.get(measure, 0.0))
            sign = "+" if measure in base else ""
            cells.append(f"{100 * found.mean:{sign}.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})")
        lines.append("| " + " | ".join([*map(str, key), *cells]) + " |")
    return "\n".join(lines)


def picture(rows: pd.DataFrame, base: Mapping[str, float], path: Path) -> None:
    """Draw a curve for each variant: what is gained against what is lost, a point for each mixture, bars of the interval."""
    figure = Figure(figsize=(6, 4.2), layout="constrained")
    axis = figure.subplots()
    for variant, of_variant in rows.groupby("variant", sort=False):
        of = {
            m: [over_seeds(g[m].to_numpy(float) - base[m]) for _, g in of_variant.groupby("alpha")]
            for m in MEASURES
        }
        x, y = ([100 * s.mean for s in of[m]] for m in ("kept", "group"))
        wide, high = ([100 * (s.mean - s.low) for s in of[m]] for m in ("kept", "group"))
        axis.errorbar(
            x, y, yerr=high, xerr=wide, marker="o", ms=4, lw=1.5, elinewidth=0.6, label=str(variant)
        )
        alphas = sorted(of_variant["alpha"].unique())
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


def wise(
    settings: Finetune,
    on: Mapping[str, LoadedBenchmark],
    base: Mapping[str, float],
    variants: Sequence[str],
    alphas: Sequence[float],
    out: Path,
) -> None:
    """Print what mixtures gain and lose, and which is best on val; draw the curves."""
    before = load_checkpoint(BASE).model.state_dict()
    _, val = split_rows(ASSEMBLED / "training.parquet")
    rows: Rows = []

    def found_at(clip: Clip, alpha: float) -> Mapping[str, float]:
        return measured(clip, on) if alpha else base

    for variant in variants:
        for seed in settings.seeds:
            clip = load_checkpoint(f"data/finetune/{variant}-{seed}")
            after = {name: value.clone() for name, value in clip.model.state_dict().items()}
            examples = load_examples(clip, val, pictures(), method=METHODS["trohn_img"])
            for alpha in alphas:
                clip.model.load_state_dict(mixed(before, after, alpha))
                clip.model.eval()
                on_val = hits(clip, examples, "cpu", "fp32")["group"]
                rows.append(
                    {"variant": variant, "seed": seed, "alpha": alpha, "val": on_val, **found_at(clip, alpha)}
                )
            click.echo(f"{variant}-{seed}", err=True)
    found = pd.DataFrame(rows)
    found.to_csv(out.with_suffix(".csv"), index=False)
    chosen = found.loc[found.groupby(["variant", "seed"], sort=False)["val"].idxmax()]
    for title, part in (
        ("each mixture", found),
        ("that of each seed which is best on val", chosen.assign(alpha="best")),
    ):
        click.echo(f"\n{title}:\n\n{table(part, ['variant', 'alpha'], [*MEASURES], base)}")
    click.echo(f"\nbest on val: {chosen.groupby('variant', sort=False)['alpha'].agg(list).to_dict()}")
    picture(found, base, out)


def pictures() -> Pictures:
    """Return the pictures of the pairs."""
    return Pictures(ASSEMBLED / "images.parquet", tables.read(tables.IMAGES, ASSEMBLED / "images.parquet"))


def corrected(variant: str, seed: int, settings: Finetune) -> tuple[Clip, int]:
    """Return the base trained by corrections of low rank, and how many numbers were trained."""
    clip, method = load_checkpoint(BASE), set_up(variant, settings.negatives, {})
    train, val = split_rows(ASSEMBLED / "training.parquet")
    left_out = {"variants", "seeds", "own", "search", "negatives", "mix", "processes"}
    given = in_steps(method, settings.model_dump(exclude=left_out), len(train))
    given |= {"trained": "lora", "lr": settings.lr * FASTER, "device": "cpu", "precision": "auto"}
    examples, validation = (
        load_examples(clip, rows, pictures(), method=of)
        for rows, of in ((train, method), (val, METHODS["trohn_img"]))
    )
    numbers: list[int] = []

    def count(points: object) -> None:
        numbers.append(sum(p.numel() for p in clip.model.parameters() if p.requires_grad))

    with tempfile.TemporaryDirectory() as scratch:
        fit(
            clip, examples, [validation], seed=seed, workers=0, scratch=Path(scratch), title=f"{variant}-{seed}",
            select="group", on_points=count, **given,
        )  # fmt: skip
    return clip, numbers[0]


def lora(
    settings: Finetune, on: Mapping[str, LoadedBenchmark], base: Mapping[str, float], variants: Sequence[str]
) -> None:
    """Print what both ways of training gain and lose, how far they go, and their differences seed by seed."""
    rows: Rows = []
    for variant in variants:
        for seed in settings.seeds:
            full = load_checkpoint(f"data/finetune/{variant}-{seed}")
            low, number = corrected(variant, seed, settings)
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
                    far = moved(BASE, Path(folder, "c"))
                rows.append(
                    {"variant": variant, "seed": seed, "trained": way, "weights": far, **measured(clip, on)}
                )
            click.echo(
                f"{variant}-{seed}: {number} of {sum(p.numel() for p in full.model.parameters())}", err=True
            )
    found = pd.DataFrame(rows)
    found.to_csv("work/lora.csv", index=False)
    click.echo(table(found, ["variant", "trained"], [*MEASURES, "weights"], base))
    wide = found.pivot_table(index=["variant", "seed"], columns="trained", values=[*MEASURES], sort=False)
    apart = pd.DataFrame({m: wide[m]["LoRA"] - wide[m]["full"] for m in MEASURES}).reset_index()
    click.echo(
        f"\nLoRA less full, seed by seed:\n\n{table(apart.assign(trained='LoRA − full'), ['variant', 'trained'], [*MEASURES], dict.fromkeys(MEASURES, 0.0))}"
    )


@click.command()
@click.argument("what", type=click.Choice(["wise", "lora"]))
@click.option("--variant", multiple=True, help="Of finetune.variants; all.")
@click.option("--points", default=11, show_default=True, help="Mixtures of `wise`, evenly from 0 to 1.")
@click.option(
    "--out", default="work/wise_ft.png", type=click.Path(path_type=Path), help="The picture of `wise`."
)
def main(what: str, variant: tuple[str, ...], points: int, out: Path) -> None:
    """Measure what fine-tuning gains and loses by what of its weights is kept."""
    be_quiet()
    torch.set_num_threads(1)
    config = load()
    on = benchmarks(config.evaluate.retrieval, config.evaluate.seed)
    variants = variant or config.finetune.variants
    base = measured(load_checkpoint(BASE), on)
    click.echo(", ".join(f"{MEASURES[name]} of the base {100 * value:.1f}" for name, value in base.items()))
    if what == "wise":
        wise(config.finetune, on, base, variants, [n / (points - 1) for n in range(points)], out)
    else:
        lora(config.finetune, on, base, variants)


if __name__ == "__main__":
    main()
