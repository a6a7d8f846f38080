"""The losses of a training are those of open_clip's own training program, run as it is."""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.training.data.examples import load_examples
from caramel.training.loop import contrastive
from caramel.training.loop.contrastive import train_clip

ROWS, BATCH = 48, 8
STEPS = ROWS // BATCH
HOW = {"lr": 0.01, "warmup_steps": 2, "eps": 1e-6, "seed": 5}


@pytest.fixture(scope="module")
def pairs(world: Any) -> pd.DataFrame:
    return world[0].pairs.head(ROWS)


@pytest.fixture(scope="module")
def theirs(
    pairs: pd.DataFrame, files: Any, clip_folder: Path, tmp_path_factory: Any
) -> dict[str, list[float]]:
    """Losses of each step by open_clip's program, with its gradient cut to 1 and, as it is by default, not cut."""
    pytest.importorskip("webdataset", reason="open_clip's program does not start without it")
    from open_clip_train import main as program

    folder = tmp_path_factory.mktemp("theirs")
    shutil.copytree(clip_folder, folder / "model")
    config = json.loads((folder / "model" / "open_clip_config.json").read_text())
    options = {"bpe_path": str(folder / "model" / "bpe.txt.gz")}
    config["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = options
    (folder / "model" / "open_clip_config.json").write_text(json.dumps(config))
    table = pairs.assign(filepath=[str(folder / f"{name}.png") for name in pairs["image_id"]])
    for path, name in zip(table["filepath"], pairs["image_id"], strict=True):
        Path(path).write_bytes(files[name])
    table.rename(columns={"caption": "title"}).to_csv(folder / "pairs.tsv", sep="\t", index=False)
    given = {
        "device": "cpu", "precision": "fp32", "dataset-type": "csv", "train-data": folder / "pairs.tsv",
        "csv-separator": "\t", "model": f"local-dir:{folder / 'model'}", "batch-size": BATCH, "epochs": 1,
        "workers": 0, "beta1": 0.9, "beta2": 0.98, "wd": 0.1, "logs": "none", **HOW,
    }  # fmt: skip
    found: dict[str, list[float]] = {}
    for name, further in (("cut", ["--grad-clip-norm", "1.0"]), ("whole", [])):
        losses = found[name] = []
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make = program.create_loss

            def noted(args: Any, make: Any = make, losses: list[float] = losses) -> Any:
                loss = make(args)
                loss.register_forward_hook(lambda *call: losses.append(call[-1]["contrastive_loss"].item()))
                return loss

            patch.setattr(program, "create_loss", noted)
            patch.setattr(program, "setup_logging", lambda *args: logging.getLogger("none"))
            patch.chdir(folder)
            arguments = [part for key, value in given.items() for part in (f"--{key}", str(value))]
            whole = ["--aug-cfg", "scale=(1.0,1.0)"]  # random crops of the whole picture
            program.main([*whole, *arguments, *further, "--name", name])
    return found


@pytest.fixture
def ours(pairs: pd.DataFrame, files: Any, clip_folder: Path, tmp_path: Path, monkeypatch: Any) -> Any:
    """A function that trains on the rows in the order of open_clip's program, and returns the losses of each step."""
    torch.manual_seed(HOW["seed"])  # as the program does, right before its loader
    loader = torch.utils.data.DataLoader(range(ROWS), BATCH, shuffle=True)
    order = [rows.numpy() for rows in loader]
    monkeypatch.setattr(contrastive, "draw_step_rows", lambda *args: np.array(order[args[-1]]))

    def losses(**changes: Any) -> list[float]:
        clip = load_checkpoint(clip_folder)
        rows = load_examples(clip, pairs, files, method=METHODS["infonce"])
        how = {
            **HOW, "steps": STEPS, "batch_size": BATCH, "weight_decay": 0.1, "checkpoint_every": 1, "device": "cpu",
            "precision": "fp32", "num_workers": 0, "scratch": tmp_path / str(changes), "title": "test", **changes,
        }  # fmt: skip
        return [value for _, name, value in train_clip(clip, rows, [], **how) if name == "loss"]

    return losses


@pytest.mark.parametrize(("name", "max_gradient"), [("cut", 1.0), ("whole", None)])
def test_each_step_has_the_loss_of_open_clips_program(
    name: str, max_gradient: Any, theirs: Any, ours: Any
) -> None:
    assert len(theirs[name]) == STEPS
    assert ours(max_gradient=max_gradient) == pytest.approx(theirs[name], abs=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"grad_clip_norm": 0.3},
        {"warmup_steps": 3},
        {"weight_decay": 2.0},
        {"betas": (0.5, 0.98)},
        {"eps": 1e-3},
    ],
)
def test_losses_would_tell_another_recipe(changes: Any, theirs: Any, ours: Any) -> None:
    found = ours(**changes)
    assert np.abs(np.subtract(found, theirs["cut"])).max() > 5e-4
