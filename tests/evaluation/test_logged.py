"""What an evaluation is called in MLflow."""

from caramel.evaluation.logged import logged_names


def test_subsets_that_the_data_name_in_any_way_have_names_that_mlflow_takes() -> None:
    from mlflow.utils.validation import _validate_metric_name

    subsets = ["all", "on", "..", "a/../b", "a//b", "", "/", "x" * 300, "a:b", "a?b", "\n", "é"]
    names = logged_names(["recall@1"] * len(subsets), subsets)
    assert names[:2] == ["recall at 1/all", "recall at 1/on"]
    assert len({*names}) == len(subsets)
    for name in names:
        _validate_metric_name(name)
