"""SugarCrepe++ fine-tuned on 40 % of itself, tested on the other 60 %, full and by LoRA: Dumpala et al. 2024, E.3.

    python bench/forty_sixty.py tune --data sugarcrepe_pp/ --images coco/val2017 --model ViT-B-32-quickgelu:openai
    python bench/forty_sixty.py world PROJECT FOLDER       # a set of the same form, of the embedded world
    python bench/forty_sixty.py tune --data FOLDER --model PROJECT/data/base --lr 3e-4 --lora-lr 3e-3

Each seed draws the split (by image file, across subsets: no picture trains and tests), the order of the rows and LoRA's
start. The weights that are tested are those of the last step: nothing is chosen. ITT and TOT of each subset are of the
tested rows alone, before and after.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click
import numpy as np
import pandas as pd

from caramel import metrics
from caramel.evaluation.score_model import LoadedBenchmark, compute_live_similarities, load_checked_benchmark
from caramel.interfaces.benchmark import Comparisons
from caramel.io.image_store import ImageStore
from caramel.models.devices import move_to_device, resolve_device
from caramel.models.open_clip.checkpoints import Clip
from caramel.models.open_clip.encoder import ClipEncoder
from caramel.models.open_clip.loader import open_target
from caramel.report.blocks import format_interval, format_percent, format_signed
from caramel.training.recipes.sugarcrepe_pp_finetune import select_training_rows, train_model
from caramel.utils.stats import summarise_seeds

BENCHMARK, MEASURED = "sugarcrepe_pp", ("itt", "tot")
RANK = 2  # of LoRA, as in the paper; which weights it corrects is not stated: all of attention and MLPs here
TARGETS = ["*.attn.in_proj_weight", "*.attn.out_proj.weight", "*.mlp.*.weight"]
VARIANTS = {"full": "all", "LoRA": "lora"}


@click.group()
def main() -> None:
    """Fine-tune on SugarCrepe++, or make a set of its form."""


@main.command("tune")
@click.option(
    "--data", required=True, type=click.Path(exists=True, path_type=Path), help="Folder of SugarCrepe++."
)
@click.option(
    "--images", type=click.Path(exists=True, path_type=Path), help="Folder of its images; that of --data."
)
@click.option("--model", required=True, help="An open_clip name and tag, or a checkpoint.")
@click.option("--seeds", default="1,2,3", show_default=True, help="Three or more.")
@click.option("--epochs", default=10, show_default=True)
@click.option("--rows", default=64, show_default=True, help="Of a step: two captions and a negative each.")
@click.option("--lr", default=1e-6, show_default=True, help="Of all weights.")
@click.option("--lora-lr", default=1e-5, show_default=True)
@click.option("--out", default=Path("work/forty_sixty"), show_default=True, type=click.Path(path_type=Path))
def run(
    data: Path,
    images: Path | None,
    model: str,
    seeds: str,
    epochs: int,
    rows: int,
    lr: float,
    lora_lr: float,
    out: Path,
) -> None:
    """Print ITT and TOT by subset, before and after, and write values.csv into --out."""
    on, device = load_checked_benchmark(BENCHMARK, data, images, None, {}), resolve_device("auto")
    frozen = score_clip(open_target(model, device), on, device)
    task, records = on.task, []
    assert isinstance(task, Comparisons)
    for seed in map(int, seeds.split(",")):
        chosen = select_training_rows(
            task.rows["image"].tolist(), [names[-1] for names in task.rows["subsets"]], seed=seed
        )
        records += list_metric_values(frozen, ~chosen, seed, "frozen")
        for variant, trained in VARIANTS.items():
            clip, scratch = open_target(model, device), out / f"{variant}-{seed}"
            shutil.rmtree(scratch, ignore_errors=True)  # of another run, of other settings
            train_model(
                clip, task, chosen, seed=seed, epochs=epochs, rows=rows, scratch=scratch, trainable=trained,
                lr=lora_lr if trained == "lora" else lr, warmup=epochs, weight_decay=0.1, device=device,
                precision="auto", num_workers=2, lora={"rank": RANK, "alpha": float(RANK), "targets": TARGETS},
            )  # fmt: skip
            records += list_metric_values(score_clip(clip, on, device), ~chosen, seed, variant)
            shutil.rmtree(scratch)
            print(f"seed {seed}, {variant}: trained on {chosen.sum()} of {len(chosen)} rows", flush=True)
    table = pd.DataFrame(records, columns=["seed", "model", "subset", "metric", "value", "rows"])
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "values.csv", index=False)
    print(format_table(table))


def score_clip(clip: Clip, on: LoadedBenchmark, device: str) -> pd.DataFrame:
    """Return table ``similarities`` of a model."""
    move_to_device(clip.model, device).eval()
    return compute_live_similarities(ClipEncoder(clip, device, "fp32", "model"), on, None)


def list_metric_values(
    similarities: pd.DataFrame, tested: np.ndarray, seed: int, model: str
) -> list[tuple[int, str, str, str, float, int]]:
    """Return (seed, model, subset, metric, value, rows) of the tested rows."""
    metric_table = metrics(similarities[tested].reset_index(drop=True), benchmark=BENCHMARK, n_bootstrap=100)
    metric_table = metric_table[metric_table["metric"].isin(MEASURED)]
    return [
        (seed, model, str(row["subset"]), str(row["metric"]), float(row["value"]), int(row["n"]))
        for row in metric_table.to_dict("records")
    ]


def format_table(table: pd.DataFrame) -> str:
    """Return the table in Markdown: means over seeds, changes with 95 % t intervals over seeds, paired."""
    lines = [
        "| subset, metric | rows | frozen | " + " | ".join(f"{k} | change" for k in VARIANTS) + " |",
        "|---" * 7 + "|",
    ]
    for (subset, metric), of in table.groupby(["subset", "metric"], sort=False):
        by = of.pivot(index="seed", columns="model", values="value")
        cells = [
            f"{subset}, {str(metric).upper()}",
            f"{of['rows'].mean():.0f}",
            format_percent(by["frozen"].mean()),
        ]
        for variant in VARIANTS:
            change = summarise_seeds((by[variant] - by["frozen"]).to_numpy(float))
            bounds = format_interval(change.low, change.high, difference=True)
            cells += [format_percent(by[variant].mean()), f"{format_signed(change.mean)} {bounds}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


@main.command()
@click.argument("project", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
def world(project: Path, folder: Path) -> None:
    """Write the test instances of a PROJECT that has run into FOLDER, in SugarCrepe++'s form with their pictures.

    No model of the project was trained on them. Each subtype but the added ones is a file.
    """
    data = project / "data"
    rows = pd.read_parquet(data / "assemble/instances_source.parquet").query("split == 'test'")
    pictures = ImageStore(data / "assemble/images.parquet", pd.read_parquet(data / "assemble/images.parquet"))
    folder.mkdir(parents=True, exist_ok=True)
    for subtype, of in rows[rows["caption2"].notna()].groupby("subtype"):
        if str(subtype).startswith(("add_", "only_")):
            continue
        written = []
        for number, row in enumerate(of.to_dict("records")):
            name = f"{row['image_id']}.png"
            (folder / name).write_bytes(pictures[row["image_id"]])
            fields = {key: row[key] for key in ("caption", "caption2", "negative_caption")}
            written.append({"id": number, "filename": name, **fields})
        (folder / f"{subtype}.json").write_text(json.dumps(written, indent=1), encoding="utf-8")
        print(f"{subtype}: {len(written)} rows")


if __name__ == "__main__":
    main()
