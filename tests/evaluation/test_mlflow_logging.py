"""What an evaluation is called in MLflow."""

from pathlib import Path

import pandas as pd
import pytest

from caramel.evaluation.mlflow_logging import build_metric_names, log_retained, select_headline_metrics
from caramel.evaluation.results.forgetting import RETAINED_COLUMNS
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame


def test_subsets_that_the_data_name_in_any_way_have_names_that_mlflow_takes() -> None:
    from mlflow.utils.validation import _validate_metric_name

    subsets = ["all", "on", "..", "a/../b", "a//b", "", "/", "x" * 300, "a:b", "a?b", "\n", "é"]
    names = build_metric_names(["recall@1"] * len(subsets), subsets)
    assert names[:2] == ["recall at 1/all", "recall at 1/on"]
    assert len({*names}) == len(subsets)
    for name in names:
        _validate_metric_name(name)


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
    assert (run.info.run_name, run.data.metrics["classes/a-1"]) == ("retained", 0.4)
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
    scored = pd.DataFrame(rows, columns=["metric", "subset", "value"])
    assert select_headline_metrics(scored) == {"group": 0.2, "recall at 1": 0.4}
    assert select_headline_metrics(scored[:0]) == {}
