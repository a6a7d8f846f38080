"""Answers of prompted multiple choice -> metrics by subset, and their spread over orders and wordings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from caramel.benchmarks.metrics import Outcomes
from caramel.errors import DataError
from caramel.evaluation.results.summary import judge
from caramel.interfaces.benchmark import Benchmark
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame


def summarise_answers(
    answers: pd.DataFrame, benchmarks: Mapping[str, Benchmark], *, bootstrap: int, seed: int
) -> pd.DataFrame:
    """Return table ``metrics`` for every model and benchmark in ``answers``.

    With W ways, of each instance: ``choice_Wway`` is the share of right answers over orders and wordings,
    ``…_all_orders`` the share of wordings in which the answers to all orders are right, ``…_unparseable`` the
    share of replies that name no option. An instance with a failed question is unscored. For the negative
    image they are named ``choice_Wway_negative_image…``, and ``choice_Wway_both_images`` is the share of
    orders and wordings that are right for both images. The spread is ``choice_Wway`` in the subsets ``order:…``
    and ``wording:…``.

    Args:
        answers: table ``answers``.
        benchmarks: name -> benchmark: its macro subsets.
        bootstrap: number of resamples.
        seed: of the bootstrap.

    Raises:
        DataError: an instance lacks answers that others have, or its rows do not agree.
    """
    parts = []
    for (model, name), rows in answers.groupby(["model", "benchmark"], sort=False):
        _check(rows, str(model))
        instances = rows.drop_duplicates("instance_id").set_index("instance_id")[["image_id", "subsets"]]
        whole, spread = _values(rows)
        nothing: Any = [[] for _ in range(len(instances))]
        alone = instances.assign(subsets=nothing)
        macro = benchmarks[str(name)].macro
        judged = [
            judge(instances, _outcomes(whole, instances.index), macro, bootstrap, seed),
            judge(alone, _outcomes(spread, instances.index), macro, bootstrap, seed),
        ]
        judged[1][["metric", "subset"]] = judged[1]["metric"].tolist()
        parts += [part.assign(model=str(model), benchmark=str(name)) for part in judged]
    return build_frame(METRICS, pd.concat(parts, ignore_index=True) if parts else [])


def _check(answers: pd.DataFrame, model: str) -> None:
    """Raise a DataError unless all instances were asked the same, each of one image."""
    odd = answers.loc[answers["order"].str.len() != answers["ways"], "instance_id"]
    several = answers.groupby("instance_id")["image_id"].transform("nunique") > 1
    asked = answers.groupby(["image", "ways", "instance_id"])["outcome"].transform("size")
    most = asked.groupby([answers["image"], answers["ways"]]).transform("max")
    for names, what in (
        (odd, "have an order of options that is not of their number"),
        (answers.loc[several, "instance_id"], "have several images"),
        (answers.loc[asked < most, "instance_id"], "lack answers that others have"),
    ):
        if len(names):
            found = list(dict.fromkeys(names))
            raise DataError(
                f"Answers of model {model!r}: {len(found)} instances {what}, the first is {found[0]!r}. "
                f"Run `caramel eval` again: replies that were had are kept."
            )


def _values(answers: pd.DataFrame) -> tuple[dict[Any, pd.Series], dict[Any, pd.Series]]:
    """Return each instance's value by metric, and by (metric, subset) of the spread."""
    hit = (answers["outcome"] == "right").astype(float).mask(answers["outcome"] == "failed")
    odd = (answers["outcome"] == "unparseable").astype(float).mask(hit.isna())
    rows = answers.assign(hit=hit, unparseable=odd)
    plain, strict, unclear, spread = {}, {}, {}, {}
    for (ways, shown), part in rows.groupby(["ways", "image"], sort=False):
        metric = f"choice_{ways}way" + ("_negative_image" if shown == "negative" else "")
        plain[metric] = _mean(part, "hit")
        strict[f"{metric}_all_orders"] = _mean(_worst(part, ["instance_id", "wording"]), "hit")
        unclear[f"{metric}_unparseable"] = _mean(part, "unparseable")
        for column in ("order", "wording"):
            for value in part[column].unique().tolist():
                spread[metric, f"{column}:{value}"] = _mean(part[part[column] == value], "hit")
    for ways in rows["ways"].unique().tolist():
        part = rows[rows["ways"] == ways]
        both = part[part.groupby("instance_id")["image"].transform("nunique") == 2]
        if len(both):
            pairs = _worst(both, ["instance_id", "order", "wording"])
            strict[f"choice_{ways}way_both_images"] = _mean(pairs, "hit")
    return {**plain, **strict, **unclear}, spread


def _worst(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return one row per key: whether all its answers are right; NaN where one failed."""
    return _complete(rows, keys, "hit", "min").reset_index()


def _mean(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return each instance's mean; NaN where an answer failed."""
    return _complete(rows, ["instance_id"], column, "mean")


def _complete(rows: pd.DataFrame, keys: list[str], column: str, how: str) -> pd.Series:
    groups = rows.groupby(keys, sort=False)[column]
    return groups.agg(how).where(groups.count() == groups.size())


def _outcomes(values: Mapping[Any, pd.Series], instances: pd.Index) -> Outcomes:
    """Return the values as outcomes of the instances; none is a tie."""
    hits = {name: column.reindex(instances) for name, column in values.items()}
    frame = pd.DataFrame(hits, index=instances)
    return Outcomes(frame, frame.isna() & False)
