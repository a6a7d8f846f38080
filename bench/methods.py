"""Print the tables of methods in docs/results.md from a run of profile `methods`, in the project's folder.

`python bench/methods.py` prints two tables:

- what each method reached on the instances except *add*, and its forgetting metrics, with the change from the
  base and its 95 % interval over images and seeds;
- its differences from the base and from plain in-batch training, on the same instances, with Holm correction
  over all printed differences.

`python bench/methods.py cost` needs only the stages before `finetune`, and times some steps of each method on
one core.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from caramel.evaluation.results.forgetting import RETENTION_MEASURES
from caramel.evaluation.results.summary import BASE
from caramel.io.image_store import ImageStore
from caramel.models.devices import resolve_precision
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.report.blocks import format_interval, format_percent, format_signed
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.training.data.batch import assemble_batch, draw_step_rows
from caramel.training.data.examples import load_examples
from caramel.training.data.hard_batch_mining import find_nearest_rows
from caramel.training.objective import Objective, add_logit_bias
from caramel.training.variants import split_rows
from caramel.utils.stats import holm_correction

DATA = Path("data/evaluate")
BENCHMARK, SUBSET = "instances", "without_add"
SCORED = {"accuracy": "accuracy", "i2t": "I2T", "t2i": "T2I", "group": "Group"}
MEASURES = ("i2t_1", "t2i_1", "classes", "weights")
AGAINST = (BASE, "infonce")
ROWS, IMAGE_INDEX, CAPTIONS = "data/assemble/training.parquet", "data/assemble/images.parquet", 128
FIRST, STEPS = 4, 8  # warm-up steps, and timed steps


def format_spread(mean: float, sd: float) -> str:
    """Return mean ± standard deviation in per cent."""
    return format_percent(mean) + ("" if np.isnan(sd) else f" ± {format_percent(sd)}")


def build_scores_table() -> list[list[str]]:
    """Return the first table: metrics and forgetting of each model."""
    variants = pd.read_csv(DATA / "variants.csv").set_index(["variant", "subset", "metric"])
    retained = pd.read_csv(DATA / "retained.csv")
    of = retained.groupby(["variant", "measure"])["value"].agg(["mean", "std"])
    change = retained.groupby(["variant", "measure"])[["change", "ci_low", "ci_high"]].first()
    titles = [
        RETENTION_MEASURES[name].title if name in RETENTION_MEASURES else "weights moved" for name in MEASURES
    ]
    rows = [["model", *SCORED.values(), *titles]]
    for name in dict.fromkeys(variants.index.get_level_values("variant")):
        row = [name]
        row += [format_spread(*variants.loc[(name, SUBSET, metric), ["mean", "sd"]]) for metric in SCORED]
        for measure in MEASURES:
            moved, low, high = change.loc[(name, measure)]
            lost = (
                ""
                if np.isnan(moved)
                else f" ({format_signed(moved)} {format_interval(low, high, difference=True)})"
            )
            row.append(format_spread(*of.loc[(name, measure)]) + lost)
        rows.append(row)
    return rows


def build_differences_table() -> list[list[str]]:
    """Return the second table: differences with intervals, bold if significant after Holm correction over all of them."""
    rows = pd.read_csv(DATA / "differences.csv")
    rows = rows[rows["benchmark"] == BENCHMARK]  # there are also the instances before refinement
    rows = rows[(rows["subset"] == SUBSET) & rows["metric"].isin(SCORED) & rows["b"].isin(AGAINST)]
    rows = rows.assign(shown=holm_correction(rows["p"].to_numpy(float)) < 0.05)
    rows_by_key = {(r["a"], r["b"], r["metric"]): r for r in rows.to_dict("records")}
    table = [["difference", *SCORED.values()]]
    for against in AGAINST:
        for name in dict.fromkeys(rows.loc[rows["b"] == against, "a"]):
            line = [f"{name} − {against}"]
            for metric in SCORED:
                row = rows_by_key[name, against, metric]
                text = f"{format_signed(row['difference'])} {format_interval(row['ci_low'], row['ci_high'], difference=True)}"
                line.append(f"**{text}**" if row["shown"] else text)
            table.append(line)
    return table


def format_markdown(rows: list[list[str]]) -> str:
    """Return a Markdown table; the first row is its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def measure_step_seconds() -> list[list[str]]:
    """Return the CPU seconds per step of each method with the default profile's batch, on one core."""
    torch.set_num_threads(1)
    train, _ = split_rows(ROWS)
    pictures = ImageStore(IMAGE_INDEX, read_table(IMAGES, IMAGE_INDEX))
    precision = resolve_precision("auto", "cpu")
    rows = [["method", "seconds"]]
    for name in METHODS:
        method, clip = METHODS[name], load_checkpoint("data/base")
        clip = add_logit_bias(clip) if method.bias else clip
        examples = load_examples(clip, train, pictures, method=method)
        if method.neighbours:
            near = find_nearest_rows(clip, examples, method.neighbours, "cpu", precision)
            examples = replace(examples, neighbours=near)
        objective = Objective(clip, method, precision=precision)
        optimizer = torch.optim.AdamW(clip.model.train().parameters(), lr=1e-5)
        for step in range(FIRST + STEPS):
            if step == FIRST:
                began = time.process_time()
            loss = objective.compute_loss(
                assemble_batch(clip, examples, draw_step_rows(examples, CAPTIONS, 0, step), 0, step)
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            objective.update_after_step()
        rows.append([name, f"{(time.process_time() - began) / STEPS:.3f}"])
    return rows


if __name__ == "__main__":
    if sys.argv[1:] == ["cost"]:
        sys.exit(print(format_markdown(measure_step_seconds())))
    print(format_markdown(build_scores_table()), format_markdown(build_differences_table()), sep="\n\n")
