"""Params and a variant's overrides of them become typed settings."""

from __future__ import annotations

from typing import Any

import pytest
from training_settings import COMMON

from caramel.errors import ConfigError
from caramel.interfaces.training_settings import LoraConfig
from caramel.registry import METHODS
from caramel.training.data.row_units import RowCounts
from caramel.training.variants import list_variant_params, resolve_variant

PARAMS: dict[str, Any] = {
    **COMMON, "lora": {"rank": 2, "alpha": 4.0, "targets": ["*.mlp.*"]}, "negatives": None, "epochs": None, "evals_per_epoch": 1,
    "steps": 10, "checkpoint_every": 5, "batch_size": 8, "lr": 1e-3, "warmup_steps": 2, "weight_decay": 0.1,
    "wise_ft_alphas": [], "keep": "best",
    "rows": "pairs", "selection_metric": "group",
}  # fmt: skip


def resolve(variant: str, **overrides: Any) -> Any:
    point = {"variant": variant, "seed": 7, "overrides": overrides}
    return resolve_variant(point, PARAMS, counts=RowCounts(20, 20, 20, 20, 20), num_workers=3)


def test_overrides_take_the_place_of_the_params_of_all_variants() -> None:
    config = resolve("ce_clip", lr=0.5, epochs=2, evals_per_epoch=2, weights={"imc": 0.7}, negatives=1)
    assert (config.method.negatives, config.method.weights["imc"]) == (1, 0.7)
    loop, optimizer = config.training.loop, config.training.optimizer
    assert (loop.seed, loop.num_workers, loop.steps, loop.checkpoint_every) == (7, 3, 2 * (20 // 4), 2)
    assert (optimizer.lr, optimizer.warmup_steps, optimizer.betas) == (0.5, 2, (0.9, 0.98))
    assert config.training.scope.lora == LoraConfig(2, 4.0, ("*.mlp.*",))


def test_a_run_logs_all_params_by_their_keys_and_nothing_that_changes_no_weight() -> None:
    params = list_variant_params(resolve("ce_clip"))
    weights = {"weight_imc", "weight_cmr", "weight_margin"}
    assert {*params} == {*PARAMS, "seed"} - {"epochs", "evals_per_epoch"} | weights
    assert params["negatives"] == METHODS["ce_clip"].negatives


@pytest.mark.parametrize("key", ["learning_rate", "seeds", "scratch"])
def test_an_unknown_override_is_an_error(key: str) -> None:
    with pytest.raises(ConfigError, match=f"Unknown settings of VariantConfig: {key}"):
        resolve("infonce", **{key: 1})
