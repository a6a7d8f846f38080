"""Compute metrics by subset from multiple-choice answers, and their spread over orders and wordings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from caramel.benchmarks.metrics import Outcomes
from caramel.errors import DataError
from caramel.evaluation.results.summary import compute_metrics
from caramel.interfaces.benchmark import Benchmark
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap


def summarise_answers(
    answers: pd.DataFrame, benchmarks: Mapping[str, Benchmark], *, bootstrap: Bootstrap
) -> pd.DataFrame:
    """Return table ``metrics`` for every model and benchmark in ``answers``.

    The metrics of an instance with W options are

    - ``choice_Wway``: share of right answers over orders and wordings
    - ``choice_Wway_all_orders``: share of wordings in which the answers to all orders are right
    - ``choice_Wway_unparseable``: share of responses that name no option
    - ``choice_Wway_negative_image…``: the same metrics for the negative image
    - ``choice_Wway_both_images``: share of orders and wordings that are right for both images

    An instance with a failed question is unscored. The spread is ``choice_Wway`` in the subsets ``order:…`` and
    ``wording:…``.

    Args:
        answers: table ``answers``.
        benchmarks: name -> benchmark, which selects the macro subsets.
        bootstrap: settings of the intervals.

    Raises:
        DataError: an instance lacks answers that other instances have, or its rows are inconsistent.
    """
    parts = []
    for (model, name), rows in answers.groupby(["model", "benchmark"], sort=False):
        _check_answers(rows, str(model))
        instances = rows.drop_duplicates("instance_id").set_index("instance_id")[["image_id", "subsets"]]
        whole, spread = _compute_instance_values(rows)
        nothing: Any = [[] for _ in range(len(instances))]
        alone = instances.assign(subsets=nothing)
        macro = benchmarks[str(name)].macro
        judged = [
            compute_metrics(instances, _build_outcomes(whole, instances.index), macro, bootstrap),
            compute_metrics(alone, _build_outcomes(spread, instances.index), macro, bootstrap),
        ]
        judged[1][["metric", "subset"]] = judged[1]["metric"].tolist()
        parts += [part.assign(model=str(model), benchmark=str(name)) for part in judged]
    return build_frame(METRICS, pd.concat(parts, ignore_index=True) if parts else [])


def _check_answers(answers: pd.DataFrame, model: str) -> None:
    """Raise a DataError unless all instances have the same number of answers and each has one image."""
    odd = answers.loc[answers["order"].str.len() != answers["n_options"], "instance_id"]
    several = answers.groupby("instance_id")["image_id"].transform("nunique") > 1
    n_answers = answers.groupby(["image", "n_options", "instance_id"])["outcome"].transform("size")
    most = n_answers.groupby([answers["image"], answers["n_options"]]).transform("max")
    for names, what in (
        (odd, "whose order of options does not have their number of options"),
        (answers.loc[several, "instance_id"], "with several images"),
        (answers.loc[n_answers < most, "instance_id"], "that lack answers which others have"),
    ):
        if len(names):
            instance_ids = list(dict.fromkeys(names))
            raise DataError(
                f"Answers of model {model!r}: instances {what}: {len(instance_ids)}. The first is {instance_ids[0]!r}. "
                f"Run `caramel eval` again. Earlier responses are reused from the cache."
            )


def _compute_instance_values(answers: pd.DataFrame) -> tuple[dict[Any, pd.Series], dict[Any, pd.Series]]:
    """Return each instance's value by metric, and by (metric, subset) for the spread."""
    hit = (answers["outcome"] == "right").astype(float).mask(answers["outcome"] == "failed")
    odd = (answers["outcome"] == "unparseable").astype(float).mask(hit.isna())
    rows = answers.assign(hit=hit, unparseable=odd)
    plain, strict, unclear, spread = {}, {}, {}, {}
    for (n_options, image_role), part in rows.groupby(["n_options", "image"], sort=False):
        metric = f"choice_{n_options}way" + ("_negative_image" if image_role == "negative" else "")
        plain[metric] = _compute_instance_means(part, "hit")
        strict[f"{metric}_all_orders"] = _compute_instance_means(
            _compute_all_right(part, ["instance_id", "wording"]), "hit"
        )
        unclear[f"{metric}_unparseable"] = _compute_instance_means(part, "unparseable")
        for column in ("order", "wording"):
            for value in part[column].unique().tolist():
                spread[metric, f"{column}:{value}"] = _compute_instance_means(
                    part[part[column] == value], "hit"
                )
    for n_options in rows["n_options"].unique().tolist():
        part = rows[rows["n_options"] == n_options]
        both = part[part.groupby("instance_id")["image"].transform("nunique") == 2]
        if len(both):
            pairs = _compute_all_right(both, ["instance_id", "order", "wording"])
            strict[f"choice_{n_options}way_both_images"] = _compute_instance_means(pairs, "hit")
    return {**plain, **strict, **unclear}, spread


def _compute_all_right(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return one row per key: whether all its answers are right; NaN if one failed."""
    return _aggregate_complete(rows, keys, "hit", "min").reset_index()


def _compute_instance_means(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return each instance's mean; NaN if an answer failed."""
    return _aggregate_complete(rows, ["instance_id"], column, "mean")


def _aggregate_complete(rows: pd.DataFrame, keys: list[str], column: str, how: str) -> pd.Series:
    groups = rows.groupby(keys, sort=False)[column]
    return groups.agg(how).where(groups.count() == groups.size())


def _build_outcomes(values: Mapping[Any, pd.Series], instances: pd.Index) -> Outcomes:
    """Return the values as outcomes of the instances, without ties."""
    hits = {name: column.reindex(instances) for name, column in values.items()}
    frame = pd.DataFrame(hits, index=instances)
    return Outcomes(frame, frame.isna() & False)
