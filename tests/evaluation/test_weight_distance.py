from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from caramel.errors import BackendError
from caramel.evaluation import weight_distance
from caramel.evaluation.scores.item_scores import DualEncoderScores
from caramel.evaluation.weight_distance import compute_weight_distance
from caramel.models.open_clip.checkpoints import WEIGHTS


def saved(folder: Path, **values: float) -> Path:
    folder.mkdir()
    save_file({name: torch.tensor([value]) for name, value in values.items()}, folder / WEIGHTS)
    return folder


def test_a_distance_is_of_all_weights_but_the_temperature(tmp_path: Path) -> None:
    base = saved(tmp_path / "base", a=3.0, b=4.0, logit_scale=1.0)
    assert compute_weight_distance(
        base, saved(tmp_path / "tuned", a=3.0, b=4.5, logit_scale=9.0)
    ) == pytest.approx(0.1)


def test_weights_that_one_of_both_lacks_are_named(tmp_path: Path) -> None:
    base = saved(tmp_path / "base", a=3.0, b=4.0)
    with pytest.raises(
        BackendError, match=r"tuned' has other weights than its base .*'b' is in only one of them"
    ):
        compute_weight_distance(base, saved(tmp_path / "tuned", a=3.0))


def test_the_base_is_loaded_once_for_all_models_that_are_compared_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    vectors = DualEncoderScores(np.eye(2), np.arange(2), np.eye(2))
    monkeypatch.setattr(weight_distance, "open_model", lambda spec, *settings: opened.append(spec))
    monkeypatch.setattr(weight_distance, "encode_items", lambda *items: vectors)
    monkeypatch.setattr(weight_distance, "_read_items", lambda *source: ([], [], []))
    points = [
        {"spec": name, "folder": str(saved(tmp_path / name, a=3.0)), "content": name}
        for name in ("base", "a", "b")
    ]
    for point in points:
        found = weight_distance.distance(
            point, "", base=points[0], source={}, content="", device="cpu", precision="fp32",
            batch_size=None, store="", executor="inline", gpus=0.0,
        )  # fmt: skip
        assert found == {"weights": 0.0, "images": 1.0, "texts": 1.0}
    assert opened == ["base", "a", "b"]
