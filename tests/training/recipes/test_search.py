"""A search takes the point that is best on val, by the mean over its seeds; the chosen one is not run again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from few_rows import few_rows, tuned

from caramel.config.search_space import Point
from caramel.runtime.mlflow import tracking
from caramel.runtime.ray.asha import Halving
from caramel.runtime.ray.trials import TrialResult
from caramel.training.recipes.search import COLUMNS, SearchConfig, draw_candidates, run_search

SEARCH = {"draws": None, "seed": 0, "seeds": (1, 2), "asha": None}


def result(value: float, mixtures: Sequence[Any] = ()) -> dict[str, Any]:
    """Return what a trial gives that was better at its first checkpoint than at its second."""
    curve = [(1, "loss", 9.0), (1, "group", value), (2, "group", value - 0.1)]
    return {"curve": curve, "select": "group", "mixtures": [*mixtures]}


def choice(values: dict[str, dict[float, Sequence[float]]], **how: Any) -> Any:
    """Return what is chosen where trials reach values by variant and lr, one per seed from 1; and all grids."""
    grids: list[list[tuple[str, float, int]]] = []

    def run(points: Sequence[Point], halving: Halving | None) -> list[TrialResult]:
        asked = [(p["variant"], p["overrides"]["lr"], p["seed"]) for p in points]
        grids.append(asked)
        found = []
        for variant, lr, seed in asked:
            value = values[variant][lr][seed - 1]
            early = {"stopped": {"checkpoint": 1, "group": value}}
            found.append(TrialResult(early if halving and value < 0.5 else result(value), Path()))
        return found

    space = {variant: {"lr": [*each]} for variant, each in values.items()}
    tried = draw_candidates(SearchConfig(space, **SEARCH), overrides={"degla": {"steps": 7}}, common={})
    return run_search(run, tried, metric="group", **{"seeds": [1, 2], "halving": {}, **how}), grids


def test_the_best_mean_over_the_seeds_is_chosen_for_each_variant_and_the_earlier_of_equal_ones() -> None:
    values = {
        "degla": {0.1: (0.9, 0.1), 0.2: (0.6, 0.5), 0.3: (0.5, 0.6)},
        "read": {0.1: (0.1, 0.1), 0.2: (0.2, 0.2)},
    }
    (own, table), grids = choice(values)
    assert own == {"degla": {"lr": 0.2, "steps": 7}, "read": {"lr": 0.2}}
    assert [*table] == COLUMNS
    assert len(grids) == 1  # of all variants at once
    assert len(table) == 10
    assert table["repeatable"].all()
    assert table["stopped"].isna().all()
    chosen = table[table["chosen"]]
    assert chosen["setting"].map(json.loads).map(dict.popitem).tolist() == [("lr", 0.2)] * 4
    assert chosen.groupby("variant")["value"].mean().to_dict() == pytest.approx({"degla": 0.55, "read": 0.2})


def test_of_mixtures_with_the_base_the_one_that_is_kept_is_what_counts() -> None:
    def run(points: Sequence[Point], halving: Halving | None) -> list[TrialResult]:
        kept = [
            result(0.5),
            result(0.4, [(0.0, "group", 0.9, False), (0.5, "loss", 1.0, True), (0.5, "group", 0.6, True)]),
        ]
        return [TrialResult(each, Path()) for each in kept]

    tried = draw_candidates(SearchConfig({"read": {"lr": [0.1, 0.2]}}, **SEARCH), overrides={}, common={})
    found = run_search(run, tried, seeds=[1], halving={}, metric="group")
    assert found.table["value"].tolist() == [0.5, 0.6]
    assert found.overrides == {"read": {"lr": 0.2}}


def test_points_that_ended_early_with_the_first_seed_are_out_and_are_said_not_to_be_repeatable() -> None:
    values = {"degla": {0.1: (0.4, 1.0), 0.2: (0.6, 0.5)}, "read": {0.1: (0.9, 0.1), 0.2: (0.7, 0.7)}}
    halving = {variant: Halving("group", 1, 2, 2) for variant in values}
    (own, table), grids = choice(values, halving=halving)
    assert {variant: each["lr"] for variant, each in own.items()} == {"degla": 0.2, "read": 0.2}
    assert grids[:2] == [[("degla", 0.1, 1), ("degla", 0.2, 1)], [("read", 0.1, 1), ("read", 0.2, 1)]]
    assert ("degla", 0.1, 2) not in grids[2]
    assert not table["repeatable"].any()
    early = table[table["stopped"].notna()]
    assert early[["point", "seed", "value", "stopped"]].to_numpy().tolist() == [[1, 1, 0.4, 1]]


def test_of_a_search_that_may_end_trials_early_none_that_ended_is_chosen_and_each_run_says_how_it_ended(
    ray_cluster: None,
    drawn_world: Any,
    world: Any,
    clip_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import mlflow

    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    rows = few_rows(drawn_world, world, tmp_path)
    space = {"trohn_text": {"lr": {"loguniform": [1e-6, 1e-2]}}}
    search = {"space": space, "draws": 3, "seed": 0, "seeds": [3], "asha": {"first": 1, "factor": 2}}
    found = tuned(["trohn_text"], rows, clip_folder, tmp_path, {"steps": 4}, executor="ray", search=search)
    table = found.searched
    assert len(table) == 3
    assert not table["repeatable"].any()
    assert table.loc[table["chosen"], "stopped"].isna().all()
    assert found.curves["step"].max() == 4
    client = mlflow.MlflowClient(tracking.get_tracking_uri(tmp_path))
    runs = client.search_runs([client.get_experiment_by_name(tracking.EXPERIMENT).experiment_id])
    ended = [run.info.status for run in runs if run.info.run_name != "finetune search"]
    assert sorted(ended) == ["FINISHED"] * int(table["stopped"].isna().sum()) + ["KILLED"] * int(
        table["stopped"].notna().sum()
    )
