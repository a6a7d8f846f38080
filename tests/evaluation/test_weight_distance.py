from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from caramel.errors import BackendError
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
