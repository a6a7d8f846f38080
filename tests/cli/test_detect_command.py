"""`caramel detect` trains detectors on any encoder, and lets them answer benchmarks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from small_transformers import clip_folder as transformers_clip

from caramel import cli

Call = Callable[..., tuple[int, str, str]]
FIELDS = {"type": "swap", "subtype": "obj"}


def write_set(folder: Path, images: int, name: str) -> Path:
    """Write rows in BiVLC's form: natural images are dark, synthetic ones bright; two rows show one image."""
    folder.mkdir(parents=True)
    rng, rows = np.random.default_rng(len(name)), []
    for number in range(images):
        files = f"{name}{number}.png", f"{name}{number}-negative.png"
        for file, low in zip(files, (0, 180), strict=True):
            pixels = rng.integers(low, low + 70, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / file)
        for word in ("cat", "dog"):
            texts = {"caption": f"a {word} on a mat", "negative_caption": f"a mat on a {word}"}
            rows.append({"image": files[0], "negative_image": files[1], **texts, **FIELDS})
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def detect(
    clip_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Call:
    """Return a function that runs the command on a small set: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    write_set(tmp_path / "training", 20, "learnt")
    write_set(tmp_path / "benchmarks/bivlc", 6, "asked")
    rows = {
        "0": {"filename": "asked0.png", "caption": "a cat on a mat", "negative_caption": "a mat on a cat"}
    }
    (tmp_path / "benchmarks/sugarcrepe").mkdir()
    (tmp_path / "benchmarks/sugarcrepe/swap_obj.json").write_text(json.dumps(rows))

    def run(*arguments: str) -> tuple[int, str, str]:
        places = [
            "--training",
            "training",
            "--data",
            "benchmarks",
            "--images",
            "benchmarks/bivlc",
            "--out",
            "out",
        ]
        with pytest.raises(SystemExit) as ended:
            cli.main(["detect", *places, "--device", "cpu", *arguments])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def test_both_rows_of_the_table_come_from_one_call_and_their_files_give_the_same_metrics(
    detect: Call, clip_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = transformers_clip(tmp_path / "clip")
    specs = ["--model", f"base=open_clip:{clip_folder}", "--model", f"trohn_img=dual:{other}"]
    epochs = ["--image-epochs", "400", "--text-epochs", "20"]
    code, printed, error = detect(*specs, *epochs, "--benchmark", "bivlc,sugarcrepe")
    assert code == 0, error
    assert "trohn_img" in printed
    metrics = pd.read_parquet("out/metrics.parquet")
    whole = metrics[metrics["subset"] == "all"].set_index(["model", "benchmark", "metric"])["value"]
    for model in ("base", "trohn_img"):
        assert whole[model, "bivlc", "image_detected"] > 0.9
        assert {"text_detected", "i2t", "t2i", "group"} <= set(whole[model, "bivlc"].index)
        assert "accuracy" in whole[model, "sugarcrepe"].index
        assert "image_detected" not in whole[model, "sugarcrepe"].index
        answers = pd.read_csv(f"out/bivlc-{model}.csv")
        assert list(answers.columns) == ["img_pred", "text_pred", "label"]
        assert answers["label"].tolist() == [0] * 12 + [1] * 12
        with pytest.raises(SystemExit) as ended:
            cli.main(["metrics", f"out/bivlc-{model}.csv", "--benchmark", "bivlc", "--out", f"read-{model}"])
        assert not ended.value.code, capsys.readouterr().err
        read = (
            pd.read_parquet(f"read-{model}/metrics.parquet")
            .query("subset == 'all'")
            .set_index("metric")["value"]
        )
        for metric in ("i2t", "t2i", "group", "text_detected", "image_detected"):
            assert read[metric] == pytest.approx(whole[model, "bivlc", metric])


def test_what_cannot_train_or_be_asked_is_refused(detect: Call, clip_folder: Path, tmp_path: Path) -> None:
    spec = f"open_clip:{clip_folder}"
    code, _, error = detect("--model", "blind:length", "--benchmark", "bivlc")
    assert code == 1
    assert "is no dual encoder" in error
    code, _, error = detect("--model", spec, "--model", spec, "--benchmark", "bivlc")
    assert code == 1
    assert "two models have one name" in error
    code, _, error = detect("--model", spec, "--benchmark", "coco_retrieval")
    assert code == 1
    path = tmp_path / "training/test.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    code, _, error = detect("--model", spec, "--benchmark", "bivlc")
    assert code == 1
    assert "shows one image" in error
