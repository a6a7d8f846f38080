"""Collect the instances of a benchmark with the verdict of each model, for the page of `caramel explore`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from caramel.audit.defects import find_defects
from caramel.benchmarks.content import TEXTS_HASH, hash_texts
from caramel.benchmarks.errata import Erratum
from caramel.benchmarks.metrics import compute_outcomes
from caramel.errors import DataError, format_items
from caramel.evaluation.results.summary import MACRO
from caramel.interfaces.benchmark import ABSENT, Benchmark, Comparisons, ImageFile, Task

RIGHT, WRONG, TIED, UNSCORED = "rwt-"
TEXTS = ("caption", "negative_caption", "caption2")


class BenchmarkInstances(NamedTuple):
    """A benchmark for the page: JSON-like values, and the images that its instances name by their number."""

    values: dict[str, Any]
    images: list[ImageFile]


def collect_instances(
    benchmark: Benchmark,
    task: Task,
    similarities: pd.DataFrame,
    metrics: pd.DataFrame,
    blind: Mapping[str, bool],
    errata: Sequence[Erratum] = (),
) -> BenchmarkInstances:
    """Return the scored instances of a benchmark: texts, images, subsets, verdicts, blind solutions, defects, errata.

    Args:
        benchmark: the benchmark.
        task: its instances, of the same release as the results.
        similarities: table ``similarities`` of the benchmark.
        metrics: table ``metrics`` of the benchmark.
        blind: instance -> whether the audit's best blind attacker solves it; instances may be missing.
        errata: corrections of the benchmark's items; those of instances without a score are left out.

    Raises:
        DataError: the results hold an instance that the files lack, or one with other texts.
    """
    rows = _select_scored_rows(benchmark, task, similarities)
    ids = rows["instance_id"].tolist()
    subsets_by_id = dict(zip(similarities["instance_id"], similarities["subsets"], strict=True))
    names = list(dict.fromkeys(name for subsets in subsets_by_id.values() for name in subsets))
    numbers = {name: number for number, name in enumerate(names)}
    models = list(dict.fromkeys(similarities["model"]))
    of_models = metrics[metrics["metric"].isin(benchmark.metrics) & metrics["model"].isin(models)]
    values = {
        "name": benchmark.name,
        "models": models,
        "metrics": list(dict.fromkeys(of_models["metric"])),
        "subsets": names,
        "means": _list_members(benchmark, names),
        "cells": _build_cells(of_models),
        "ids": ids,
        "texts": _list_texts(task, rows),
        "images": _list_images(task, rows),
        "in": [[numbers[name] for name in subsets_by_id[instance]] for instance in ids],
        "verdicts": _format_verdicts(benchmark, similarities, models, ids),
        "blind": "".join({True: "s", False: "f", None: "-"}[blind.get(instance)] for instance in ids),
        "defects": _find_instance_defects(task, rows),
        "errata": _list_errata(errata, ids),
    }
    return BenchmarkInstances(values, list(task.images))


def _select_scored_rows(benchmark: Benchmark, task: Task, similarities: pd.DataFrame) -> pd.DataFrame:
    """Return the task's rows that some model scored, after checking that their texts are those of the results."""
    scored = similarities.set_index("instance_id")[TEXTS_HASH]
    hashes = pd.Series(hash_texts(task), index=task.rows["instance_id"])
    lacking = ~scored.index.isin(hashes.index)
    differ = scored.notna().to_numpy() & (scored.to_numpy() != hashes.reindex(scored.index).to_numpy())
    if odd := list(dict.fromkeys(scored.index[lacking | differ])):
        raise DataError(
            f"Benchmark {benchmark.name!r}: {len(odd)} instances of the results are missing in its files, or have other "
            f"texts there:\n{format_items([repr(name) for name in odd])}\n"
            f"The files are of another release. Give those that were scored with --data."
        )
    return task.rows[task.rows["instance_id"].isin(scored.index)].reset_index(drop=True)


def _list_members(benchmark: Benchmark, subsets: Sequence[str]) -> dict[str, list[str]]:
    """Return the subsets of each mean: the instances behind its cell."""
    members = {MACRO: [name for name in subsets if benchmark.macro(name)]}
    for mean, parts in benchmark.means.items():
        members[mean] = [name for part in parts for name in members.get(part, [part])]
    return {mean: names for mean, names in members.items() if names}


def _build_cells(metrics: pd.DataFrame) -> list[list[Any]]:
    """Return the rows of table ``metrics``: metric, model, subset, value and interval (null if NaN), n."""
    columns = ["metric", "model", "subset", "value", "ci_low", "ci_high", "n"]
    records = metrics[columns].itertuples(index=False, name=None)
    return [[_round_value(value) for value in record] for record in records]


def _round_value(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else round(value, 5)


def _list_texts(task: Task, rows: pd.DataFrame) -> list[list[str | None]]:
    """Return positive caption, negative caption and paraphrase of each row; for a ranking, its true texts or query."""
    if isinstance(task, Comparisons):
        plain = rows[list(TEXTS)].astype(object)
        return plain.where(plain.notna(), None).to_numpy().tolist()
    return [
        [" / ".join(task.texts[i][0] for i in (true if direction == "i2t" else [query])), None, None]
        for direction, query, true in zip(rows["direction"], rows["query"], rows["true"], strict=True)
    ]


def _list_images(task: Task, rows: pd.DataFrame) -> list[list[int]]:
    """Return the numbers of positive and negative image of each row, or ``ABSENT``."""
    if isinstance(task, Comparisons):
        return rows[["image", "negative_image"]].to_numpy().tolist()
    return [
        [int(query if direction == "i2t" else true[0]), ABSENT]
        for direction, query, true in zip(rows["direction"], rows["query"], rows["true"], strict=True)
    ]


def _format_verdicts(
    benchmark: Benchmark, similarities: pd.DataFrame, models: Sequence[str], ids: Sequence[str]
) -> dict[str, list[str]]:
    """Return by metric one text per model: the verdict on each instance, a character of it."""
    verdicts: dict[str, list[str]] = {metric: [] for metric in benchmark.metrics}
    for model in models:
        run = similarities[similarities["model"] == model].set_index("instance_id").reindex(list(ids))
        outcomes = compute_outcomes(run, benchmark.metrics)
        for metric, of_metric in verdicts.items():
            pairs = zip(outcomes.hits[metric].tolist(), outcomes.ties[metric].tolist(), strict=True)
            of_metric.append("".join(_format_verdict(hit, tie) for hit, tie in pairs))
    return verdicts


def _format_verdict(hit: float, tie: bool) -> str:
    if math.isnan(hit):
        return UNSCORED
    if hit == 1:
        return RIGHT
    return TIED if tie else WRONG


def _find_instance_defects(task: Task, rows: pd.DataFrame) -> dict[str, list[int]]:
    """Return the rows with each defect of their texts, as `caramel audit` finds them; none for rankings.

    ``word_order_only`` is left out: it is what a swap is made of.
    """
    captions = rows["caption"].notna() & rows["negative_caption"].notna() if "caption" in rows else None
    if not isinstance(task, Comparisons) or captions is None or not captions.any():
        return {}
    of_texts = rows.loc[captions, ["image_id", *TEXTS]].assign(pair_id=rows.index[captions].tolist())
    defects: dict[str, Any] = dict(find_defects(of_texts))
    del defects["word_order_only"]
    return {name: numbers for name, numbers in defects.items() if numbers}


def _list_errata(errata: Sequence[Erratum], ids: Sequence[str]) -> list[list[Any]]:
    """Return the row of each erratum, the text that it corrects, published text, new text (null: excluded) and reason."""
    numbers = {name: number for number, name in enumerate(ids)}
    return [
        [numbers[erratum.instance], erratum.field, erratum.old, erratum.new, erratum.reason]
        for erratum in errata
        if erratum.instance in numbers
    ]
