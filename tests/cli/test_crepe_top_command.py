"""`caramel crepe top` lists the captions that models rank first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from commands import call_command
from PIL import Image

from caramel.crepe.example_files import Example, write_examples


def test_the_three_first_captions_of_each_image_are_listed(clip_folder: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "images" / "VG_100K").mkdir(parents=True)
    rows = []
    for number in (1, 2):
        pixels = rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / "VG_100K" / f"{number}.jpg")
        negatives = {
            "valid_hard_negs_atom": ["a blue dog", "a red cat", "a red cow", "a wet dog"],
            "valid_hard_negs_comp": [f"a blue dog and a red cat {k}" for k in range(6)],
        }
        rows.append(Example(str(number), (0, 0, 40, 40), f"a red dog {number}", negatives))
    write_examples(tmp_path / "data/crepe_systematicity/syst_vg_hard_negs_seen_compounds_in_x.csv", rows)
    words = [
        "crepe",
        "top",
        "--model",
        f"tiny=open_clip:{clip_folder}",
        "--model",
        f"open_clip:{clip_folder}",
    ]
    done = call_command(tmp_path, *words, "--data", "data", "--images", "images", "--out", "top.csv")
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "top.csv")
    both = table[table["subsets"] == "x/sc/both"]
    assert both.groupby(["model", "instance_id"]).size().tolist() == [3, 3, 3, 3]
    assert set(both["rank"]) == {1, 2, 3}
    assert (both.groupby(["model", "instance_id"])["score"].diff().dropna() <= 0).all()
    assert "the true caption is first for" in done.stdout
    done = call_command(
        tmp_path,
        "crepe",
        "top",
        "--model",
        "blind:length",
        "--data",
        "data",
        "--images",
        "images",
        "--out",
        "t.csv",
    )
    assert done.returncode == 1
    assert "scores texts alone" in done.stderr
