"""The README's examples of the Python functions run as they stand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import open_clip
import pandas as pd
import pytest
import small_transformers
from PIL import Image
from remote_projects import cached
from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel, CLIPProcessor

import caramel
from caramel import tables
from caramel.release import pin as pins

ROOT = Path(__file__).parents[1]
SIZE = 32


def examples() -> list[str]:
    """Return the Python of the section, block by block."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("## From Python\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def pinned(root: Path) -> None:
    """Pin a small project as v1.0, as if DVC had made its one table."""
    path = root / "data" / "assemble" / "training.parquet"
    rows = [{"id": "a", "stage": "refine", "reason": "surplus", "text": "x"}]
    tables.write(tables.REJECTS, tables.frame(tables.REJECTS, rows), path)
    out = {"path": "data/assemble", "md5": pins.dvc_hash(path.parent)}
    lock = {"schema": "2.0", "stages": {"make": {"cmd": "make", "outs": [out]}}}
    (root / "dvc.lock").write_text(json.dumps(lock), encoding="utf-8")
    (root / "params.yaml").write_text("profile: smoke\n", encoding="utf-8")
    pins.pin("v1.0", root)


def small_benchmark(root: Path) -> None:
    rows = {
        str(n): {
            "filename": f"{n % 4}.jpg",
            "caption": f"a {one} dog and a {other} cat",
            "negative_caption": f"A {other} dog and a {one} cat.",
        }
        for n, (one, other) in enumerate(
            [("red", "blue"), ("big", "small"), ("blue", "big"), ("small", "red")]
        )
    }
    (root / "benchmarks" / "sugarcrepe").mkdir(parents=True)
    (root / "benchmarks" / "sugarcrepe" / "swap_att.json").write_text(json.dumps(rows), encoding="utf-8")
    (root / "coco" / "val2017").mkdir(parents=True)
    for n in range(4):
        pixels = np.random.default_rng(n).integers(0, 255, (SIZE, SIZE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / "coco" / "val2017" / f"{n}.jpg")


def test_the_examples_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small_benchmark(tmp_path)
    pinned(tmp_path)
    pinned(tmp_path / "lab" / "benchmark")
    cached(tmp_path / "lab" / "benchmark")
    captions = {
        "caption": [f"a cat and {i} dogs" for i in range(60)],
        "negative_caption": [f"a dog and {i % 7} cats {'too ' * (i % 3)}" for i in range(60)],
        "image_id": [f"{i}.jpg" for i in range(60)],
    }
    pd.DataFrame(captions).to_csv("captions.csv", index=False)
    folder = small_transformers.clip_folder(tmp_path / "clip")
    images = AutoImageProcessor.from_pretrained(folder, backend="pil")
    vision = {"image_size": SIZE, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
    text = {"context_length": 16, "width": 32, "heads": 2, "layers": 1}
    steps: list[int] = []
    names = {
        "model": open_clip.CLIP(embed_dim=16, vision_cfg=vision, text_cfg=text),
        "tokenizer": open_clip.SimpleTokenizer(context_length=16),
        "preprocess": open_clip.image_transform(SIZE, is_train=False),
        "loader": range(2000),
        "train_step": lambda model, batch: steps.append(batch),
        "clip": CLIPModel.from_pretrained(folder),
        "processor": CLIPProcessor(images, AutoTokenizer.from_pretrained(folder)),
        "encode_images": lambda images: np.array([np.asarray(i, float).mean((0, 1)) for i in images]),
        "encode_texts": lambda texts: np.array([[float(t.count(c)) for c in "abc"] for t in texts]),
    }
    blocks = examples()
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    said = capsys.readouterr().out
    assert len(steps) == 2000
    assert "2000 {'accuracy': " in said
    assert len(names["rows"]) == 1
    assert not Path("mlruns").exists()
    for name in caramel.__all__:
        assert any(f"caramel.{name}(" in block for block in blocks), f"{name} is not shown"
