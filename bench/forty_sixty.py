"""Fine-tune on 40 % of SugarCrepe++ and test on the other 60 %, full and with LoRA: Dumpala et al. 2024, E.3.

    python bench/forty_sixty.py tune --data sugarcrepe_pp/ --images coco/val2017 --model ViT-B-32-quickgelu:openai
    python bench/forty_sixty.py world PROJECT FOLDER       # a set of the same form, of the embedded world
    python bench/forty_sixty.py tune --data FOLDER --model PROJECT/data/base --lr 3e-4 --lora-lr 3e-3

Each seed draws the split, the order of the rows and LoRA's initial weights. The split is by image file across
subsets, so that no image is in both training and test. The tested weights are those of the last step, without
any selection. The paper names the objective of sentence-transformers, and none of its settings. ITT and TOT of each subset are computed on the test rows only, before and after training.
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
from caramel.interfaces.settings import Compute
from caramel.interfaces.training_settings import (
    ContrastiveConfig,
    LoopConfig,
    LoraConfig,
    OptimizerConfig,
    TrainableConfig,
    TrainableScope,
)
from caramel.io.image_store import ImageStore
from caramel.models.devices import move_to_device, resolve_device
from caramel.models.open_clip.config import Clip
from caramel.models.open_clip.encoder import ClipEncoder
from caramel.models.open_clip.loader import open_target
from caramel.report.blocks import format_interval, format_percent, format_signed
from caramel.training.recipes.sugarcrepe_pp_finetune import select_training_rows, train_model
from caramel.utils.stats import summarise_seeds

BENCHMARK, MEASURED = "sugarcrepe_pp", ("itt", "tot")
RANK = 2  # of LoRA, as in the paper. The paper does not state the adapted weights; here all of attention and MLPs.
TARGETS = ["*.attn.in_proj_weight", "*.attn.out_proj.weight", "*.mlp.*.weight"]
VARIANTS: dict[str, TrainableScope] = {"full": "all", "LoRA": "lora"}


@click.group()
def main() -> None:
    """Fine-tune on SugarCrepe++, or build a set of its form."""


@main.command("tune")
@click.option(
    "--data", required=True, type=click.Path(exists=True, path_type=Path), help="Folder of SugarCrepe++."
)
@click.option(
    "--images", type=click.Path(exists=True, path_type=Path), help="Folder of its images. Default: --data."
)
@click.option("--model", required=True, help="An open_clip name and tag, or a checkpoint.")
@click.option("--seeds", default="1,2,3", show_default=True, help="Three or more seeds.")
@click.option(
    "--method",
    default="sentence_transformers",
    show_default=True,
    help="Objective; the paper names this one.",
)
@click.option("--epochs", default=10, show_default=True)
@click.option(
    "--rows", default=64, show_default=True, help="Rows per step: two captions and a negative each."
)
@click.option("--lr", default=1e-6, show_default=True, help="Learning rate for full fine-tuning.")
@click.option("--lora-lr", default=1e-5, show_default=True)
@click.option("--out", default=Path("work/forty_sixty"), show_default=True, type=click.Path(path_type=Path))
def run(
    data: Path,
    images: Path | None,
    model: str,
    seeds: str,
    method: str,
    epochs: int,
    rows: int,
    lr: float,
    lora_lr: float,
    out: Path,
) -> None:
    """Print ITT and TOT by subset, before and after, and write values.csv to --out."""
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
            settings = ContrastiveConfig(
                LoopConfig(
                    seed, steps=1, batch_size=1, checkpoint_every=1, num_workers=2, micro_batch_size=None,
                    grad_checkpointing=False, patience=None, ema_decay=None,
                ),
                OptimizerConfig(
                    lora_lr if trained == "lora" else lr, warmup_steps=epochs, weight_decay=0.1, betas=(0.9, 0.98), eps=1e-6,
                    grad_clip_norm=1.0,
                ),
                TrainableConfig(trained, unlocked_layers=1, lora=LoraConfig(RANK, float(RANK), tuple(TARGETS))),
                Compute(device, "auto"),
            )  # fmt: skip
            train_model(
                clip,
                task,
                chosen,
                method=method,
                epochs=epochs,
                rows=rows,
                settings=settings,
                scratch=scratch,
            )
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
    """Return (seed, model, subset, metric, value, rows) of the test rows."""
    metric_table = metrics(similarities[tested].reset_index(drop=True), benchmark=BENCHMARK, n_bootstrap=100)
    metric_table = metric_table[metric_table["metric"].isin(MEASURED)]
    return [
        (seed, model, str(row["subset"]), str(row["metric"]), float(row["value"]), int(row["n"]))
        for row in metric_table.to_dict("records")
    ]


def format_table(table: pd.DataFrame) -> str:
    """Return the table in Markdown: means over seeds, and paired changes with 95 % t intervals over seeds."""
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
    """Write the test instances of a finished PROJECT to FOLDER, in SugarCrepe++'s form with their images.

    No model of the project was trained on them. Each subtype except the added ones is a file.
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
