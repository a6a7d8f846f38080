"""The stage ``finetune`` on a few rows of the small world of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stored_images import stored
from training_rows import training_rows
from training_settings import COMMON

from caramel.interfaces.settings import Execution
from caramel.schemas.io import write_table
from caramel.schemas.training import TRAINING
from caramel.training.recipes.finetune import train_variants
from caramel.training.recipes.search import SearchConfig
from caramel.training.tracked_trials import TrainingInputs
from caramel.utils.typed_settings import build_settings

SETTINGS = {
    "steps": 2,
    "batch_size": 8,
    "lr": 0.001,
    "warmup_steps": 1,
    "weight_decay": 0.1,
    "checkpoint_every": 2,
}
SETTINGS |= {"epochs": None, "evals_per_epoch": 1, "keep": "best", "negatives": None, "wise_ft_alphas": []}
SETTINGS |= {"rows": "pairs", "selection_metric": "group"}


def few_rows(drawn_world: Any, world: Any, folder: Path) -> str:
    """Write a training table of 20 train rows and 4 val rows, the images beside it; return its path."""
    taken = drawn_world[1]
    rows = training_rows(world, list(taken.files), 24).assign(
        split=["train"] * 20 + ["val"] * 4, caption2=None
    )
    write_table(TRAINING, rows, folder / "set.parquet")
    images = [{**row, "data": taken.files[row["image_id"]]} for row in taken.rows]
    stored(folder / "images.parquet", images)
    return str(folder / "set.parquet")


def tuned(
    variants: list[str],
    rows: str,
    base: Path,
    folder: Path,
    settings: Any = (),
    executor: Any = "inline",
    search: Any = None,
    **changes: Any,
) -> Any:
    """Fine-tune with seed 3 on the rows of a table whose images lie in the folder."""
    return train_variants(
        variants=variants,
        seeds=[3],
        inputs=TrainingInputs(str(base), rows, str(folder / "images.parquet"), tracked=()),
        common={**COMMON, **SETTINGS, **dict(settings)},
        search=search and build_settings(SearchConfig, search),
        **{"overrides": {}, "nproc": 1, **changes},
        num_workers=0,
        execution=Execution(executor, folder / "trials", 0.0),
        out=folder / "out",
        root=folder,
    )
