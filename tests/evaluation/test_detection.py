"""Detectors on the world's pictures: what is told, and how the training set is divided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from training_rows import training_rows

from caramel.evaluation import detection
from caramel.evaluation.benchmark_source import BenchmarkSource
from caramel.evaluation.external.detector_files import IMAGE, TEXT
from caramel.evaluation.synthetic_probe_data import select_learning_rows
from caramel.utils.resampling import Bootstrap


@pytest.mark.parametrize("told", [True, False])
def test_pictures_of_the_world_are_told_where_they_differ_by_what_they_are(
    told: bool,
    drawn_world: Any,
    world: Any,
    clip_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = drawn_world[1].files
    rows = select_learning_rows(training_rows(world, list(files), 40), None)
    first, lines = next(name for name in files if name not in set(rows["image_id"])), []
    for row in rows.to_dict("records"):
        names = row["image_id"], first if told else row["negative_image_id"]
        for name in names:
            (tmp_path / f"{name}.png").write_bytes(files[name])
        images = dict(zip(("image", "negative_image"), (f"{name}.png" for name in names), strict=True))
        texts = {name: row[name] for name in ("caption", "negative_caption")}
        lines.append(json.dumps({**images, **texts, "type": "swap", "subtype": "obj"}))
    (tmp_path / "test.jsonl").write_text("\n".join(lines))
    source = BenchmarkSource("bivlc", str(tmp_path), str(tmp_path), {}, missing="fail")
    steps: list[int] = []
    fit_head = detection.fit_head

    def count_steps(*given: Any, **settings: Any) -> Any:
        steps.append(settings["steps"])
        return fit_head(*given, **settings)

    monkeypatch.setattr(detection, "fit_head", count_steps)
    config = detection.DetectorConfig({IMAGE: 3000, TEXT: 10}, "cpu", 16, 0, tmp_path / "store")
    encode, heads = detection.train_detectors(str(clip_folder), source, config)
    assert steps == [3000, 10], "as many as the epochs, since the rows fill one batch"
    task = detection.read_pairs(source)
    answers = detection.detect_pairs(encode, heads, task)
    metrics = detection.measure_detectors(
        answers, task, model="m", benchmark="bivlc", bootstrap=Bootstrap(100, 0)
    )
    value = metrics[metrics["subset"] == "all"].set_index("metric")["value"]
    assert (value["image_detected"] > 0.95) == told
    assert 0 <= value["group"] <= value["i2t"] <= 1


def test_each_model_by_name_has_a_checkpoint_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_target(*, pretrained: str, out: Path) -> None:
        out.mkdir()
        (out / "name").write_text(pretrained)

    monkeypatch.setattr(detection, "adopt_pretrained", write_target)
    targets = [f"convnext_base_w:laion2b_s13b_b82k{ending}" for ending in ("", "_augreg")]
    folders = [detection._find_checkpoint(target, f"open_clip:{target}", tmp_path) for target in targets]
    assert [(folder / "name").read_text() for folder in folders] == targets
    assert {path.parent for path in folders} == {tmp_path / "checkpoints"}
    assert detection._find_checkpoint(targets[0], f"open_clip:{targets[0]}", tmp_path) == folders[0]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2, "nothing is left beside them"
