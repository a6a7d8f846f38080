"""What an evaluation logs in MLflow, and by which names."""

from pathlib import Path

import pandas as pd
import pytest

from caramel.evaluation.mlflow_logging import (
    log_metrics,
    log_retained,
    log_variants,
    select_headline_metrics,
)
from caramel.evaluation.results.forgetting import RETAINED_COLUMNS
from caramel.evaluation.results.summary import VARIANT_COLUMNS
from caramel.interfaces.benchmark import Exclusion
from caramel.runtime.mlflow import tracking
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame


def test_a_run_has_few_metrics_and_a_table_of_all_subsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    of = {"model": "m", "benchmark": "instances", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6}
    names = [(metric, subset) for metric in ("group", "recall@1") for subset in ("all", "..", "a/../b", "é")]
    metrics = build_frame(METRICS, [{"metric": metric, "subset": subset, **of} for metric, subset in names])
    left_out = Exclusion(
        rows=pd.DataFrame({"image": [0, 1]}), texts_hash=["a", "b"], missing_images=3, images=9
    )
    with tracking.run("n", key="k", params={}) as active:
        log_metrics(metrics, left_out=left_out)
    client = mlflow.MlflowClient(tracking.get_tracking_uri(tmp_path))
    logged = client.get_run(active.info.run_id).data.metrics
    # MLflow shows the charts of names with a slash first, and the others by name.
    by_name = sorted(name for name in logged if not name.startswith("system/"))
    spread = [
        f"uncertainty.{metric}.{end}" for metric in ("group", "recall at 1") for end in ("ci_high", "ci_low")
    ]
    assert by_name == ["group", "missing_images", "missing_instances", "recall at 1", *spread]
    path = client.download_artifacts(active.info.run_id, "subsets.csv", str(tmp_path))
    table = pd.read_csv(path)
    assert list(zip(table["metric"], table["subset"], strict=True)) == names
    assert table.loc[0, ["value", "ci_low", "ci_high"]].tolist() == [0.5, 0.4, 0.6]


def test_what_models_kept_is_one_run_with_its_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    from caramel.runtime.mlflow.tracking import EXPERIMENT, get_tracking_uri

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    measured = {"base": (0.5, 0.3), "a-1": (0.4, 0.5)}
    of = {"benchmark": "instances", "metric": "group", "subset": "without_add"}
    metrics = build_frame(METRICS, [{"model": m, **of, "value": v} for m, (_, v) in measured.items()])
    rows = [
        {"model": m, "variant": m.removesuffix("-1"), "measure": "classes", "value": value}
        for m, (value, _) in measured.items()
    ]
    for _ in range(2):  # a stage that is run again has no second one
        log_retained(metrics, pd.DataFrame(rows, columns=list(RETAINED_COLUMNS)))
    client = mlflow.MlflowClient(get_tracking_uri(tmp_path))
    (run,) = client.search_runs([client.get_experiment_by_name(EXPERIMENT).experiment_id])
    assert run.info.run_name == "retained"
    table = pd.read_csv(client.download_artifacts(run.info.run_id, "retained.csv", str(tmp_path)))
    assert table.set_index("model")["value"].to_dict() == {"base": 0.5, "a-1": 0.4}
    assert {a.path for a in client.list_artifacts(run.info.run_id)} == {
        "retained.csv",
        "gain_against_loss.png",
    }


def test_each_metric_is_logged_once_by_its_bare_name_on_its_headline_subset() -> None:
    rows = [
        ("group", "all", 0.1),
        ("group", "without_add", 0.2),
        ("group", "swap", 0.3),
        ("recall@1", "all", 0.4),
    ]
    scored = pd.DataFrame(rows, columns=["metric", "subset", "value"]).assign(
        ci_low=0.1, ci_high=float("nan")
    )
    assert select_headline_metrics(scored) == {
        "group": 0.2,
        "recall at 1": 0.4,
        "uncertainty.group.ci_low": 0.1,
        "uncertainty.recall at 1.ci_low": 0.1,
    }
    assert select_headline_metrics(scored[:0]) == {}


def test_the_run_of_a_variant_has_mean_deviation_and_interval_over_its_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    rows = [("a", "all", "group", 0.5, 0.1, 0.3, 0.7, 3), ("b", "all", "group", 0.9, 0.1, 0.8, 1.0, 3)]
    planned = tracking.plan_run("evaluate a", key="k", params={})
    log_variants({"a": planned}, pd.DataFrame(rows, columns=list(VARIANT_COLUMNS)))
    (run,) = mlflow.MlflowClient(planned.uri).search_runs([planned.experiment])
    logged = {name: value for name, value in run.data.metrics.items() if not name.startswith("system/")}
    spread = {"sd": 0.1, "ci_low": 0.3, "ci_high": 0.7}
    assert logged == {"group": 0.5, **{f"uncertainty.group.{name}": v for name, v in spread.items()}}
