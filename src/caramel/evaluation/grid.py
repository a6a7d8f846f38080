"""Run stage ``evaluate``: score base, fine-tuned and further models on the assembled and public benchmarks."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from caramel.benchmarks.readers.held_out import select_single_object_pairs
from caramel.benchmarks.readers.zero_shot import has_content
from caramel.errors import BackendError
from caramel.evaluation.benchmark_source import BenchmarkSource, locate_benchmark
from caramel.evaluation.bounds import compute_bounds
from caramel.evaluation.evaluate import Evaluation, run_evaluation
from caramel.evaluation.results.comparison import compare_forms, compare_variants
from caramel.evaluation.results.forgetting import CLASSES, RETRIEVAL, ZERO_SHOT, compute_retention
from caramel.evaluation.results.run_hits import compute_run_hits
from caramel.evaluation.results.separability import count_separable
from caramel.evaluation.results.standardisation import standardise_compounds
from caramel.evaluation.results.summary import BASE, summarise_variants
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.weight_distance import compute_distances
from caramel.interfaces.settings import Compute, Execution
from caramel.models.devices import get_gpus_per_worker, resolve_device
from caramel.models.specs import hash_content
from caramel.registry import BENCHMARKS
from caramel.runtime.mlflow import tracking
from caramel.runtime.ray.sharded_map import compute_fingerprint
from caramel.utils.resampling import Bootstrap

ASSEMBLED, SCENES = "data/assemble", "data/scenes"
FORMS = (
    "instances",
    "instances_source",
)  # positive images drawn like the negative images, or positive images of the source
HEADLINE = ("accuracy", "i2t", "t2i", "group")


@dataclass(frozen=True)
class BenchmarkSelection:
    """Split and benchmarks to score, in addition to the assembled instances.

    Attributes:
        split: split of the assembled instances and of the source's pairs.
        names: names of further benchmarks.
        data: folder that holds one folder per further benchmark.
        images: folder of the images of further benchmarks.
        retrieval_images: number of the source's images that measure retention, at least 2
            (``readers/held_out.py``).
        zero_shot: folder with one folder of images per class, which measure retention too; skipped if it is empty.
        seed: seed of the draw of ``retrieval_images``, at least 0.
    """

    split: str
    names: Sequence[str]
    data: str | None
    images: str | None
    retrieval_images: int
    zero_shot: str
    seed: int


class EvaluationTables(NamedTuple):
    """Tables that the stage writes; "both forms" are the forms of the assembled instances."""

    similarities: pd.DataFrame  # table ``similarities``
    answers: pd.DataFrame  # table ``answers``
    metrics: pd.DataFrame  # table ``metrics``
    variants: pd.DataFrame  # ``summary.VARIANT_COLUMNS`` for benchmark ``instances``
    differences: pd.DataFrame  # ``comparison.DIFFERENCE_COLUMNS`` for both forms, and for one minus the other
    separability: pd.DataFrame  # ``separability.SEPARABILITY_COLUMNS`` for both forms
    compounds: pd.DataFrame  # ``standardisation.STANDARDISED_COLUMNS`` for both forms
    bounds: pd.DataFrame  # ``bound_columns.BOUND_COLUMNS`` for both forms
    retained: pd.DataFrame  # ``forgetting.RETAINED_COLUMNS``


class ScoredModels(NamedTuple):
    """What ``score_models`` passes on to ``compare_models``."""

    evaluation: Evaluation
    folders: Mapping[str, str]  # checkpoint folder of the base and of each fine-tuned model, by name
    variant_runs: Mapping[str, tracking.PlannedRun]  # MLflow run above those of a variant's seeds
    held_out: BenchmarkSource  # the retrieval that measures retention


def score_models(
    tuned: Sequence[tuple[str, int]],
    *,
    models: Sequence[str],
    benchmarks: BenchmarkSelection,
    compute: Compute,
    batch_size: int,
    bootstrap: Bootstrap,
    execution: Execution,
) -> ScoredModels:
    """Score the base, the fine-tuned models and further ones on all benchmarks.

    Args:
        tuned: (variant, seed) of each fine-tuned model.
        models: specs of further models.
        benchmarks: split and benchmarks to score.
        compute: device and precision.
        batch_size: items per forward pass.
        bootstrap: settings of the intervals.
        execution: how trials run; its folder also holds the embedding store.

    Raises:
        DataError: there is nothing to score, or an image is missing.
        BackendError: a checkpoint is missing or broken.
        ResourceError: a trial failed on Ray; the message holds its error.
    """
    sources = [
        BenchmarkSource(name, ASSEMBLED, ASSEMBLED, {"split": benchmarks.split}, dvc=(ASSEMBLED,))
        for name in FORMS
        if name == "instances" or Path(ASSEMBLED, f"{name}.parquet").exists()
    ]
    held_out = _list_retention_sources(benchmarks.split, benchmarks.retrieval_images, benchmarks.seed)
    sources += held_out
    if has_content(Path(benchmarks.zero_shot)):
        sources.append(locate_benchmark(ZERO_SHOT, Path(benchmarks.zero_shot), None))
    images = Path(benchmarks.images) if benchmarks.images else None
    for name in benchmarks.names:
        assert benchmarks.data is not None, "caramel.config.validate checks this before the first stage"
        sources.append(locate_benchmark(name, Path(benchmarks.data), images))
    folders, tags = list_checkpoints(tuned)
    variant_runs = _plan_variant_runs(tuned, folders)
    parents = {variant: tracking.create_run(planned) for variant, planned in variant_runs.items()}
    tags = {
        name: {**known, **({tracking.PARENT: parents[known["variant"]]} if "seed" in known else {})}
        for name, known in tags.items()
    }
    evaluation = run_evaluation(
        [*(f"{name}=open_clip:{path}" for name, path in folders.items()), *models],
        sources,
        compute=compute,
        batch_size=batch_size,
        bootstrap=bootstrap,
        execution=execution,
        store=_get_store(execution),
        tags=tags,
    )
    return ScoredModels(evaluation, folders, variant_runs, held_out[0])


def compare_models(
    scored: ScoredModels,
    *,
    allow_unmentioned_objects: bool,
    compute: Compute,
    batch_size: int,
    bootstrap: Bootstrap,
    execution: Execution,
) -> EvaluationTables:
    """Compare the variants of the scored models with each other, and say what they keep of the base.

    Args:
        scored: from ``score_models``, with the same ``compute``, ``batch_size`` and ``execution``.
        allow_unmentioned_objects: whether an image may show more than its caption says.
        compute: device and precision.
        batch_size: items per forward pass.
        bootstrap: settings of the intervals.
        execution: as in ``score_models``.

    Raises:
        BackendError: a checkpoint is missing or broken.
    """
    evaluation, folders, _, held_out = scored
    ours = evaluation.similarities[evaluation.similarities["model"].isin([*folders])]
    forms = {
        name: compute_run_hits(ours, name, BENCHMARKS[name].metrics)
        for name in FORMS
        if name in {*ours["benchmark"]}
    }
    differences = [
        compare_variants(runs, BENCHMARKS[name], bootstrap=bootstrap) for name, runs in forms.items()
    ]
    if len(forms) == len(FORMS):
        first, second = forms.values()
        differences.append(compare_forms(first, second, BENCHMARKS[FORMS[0]], bootstrap=bootstrap))
    headlines = [runs.select_metrics(HEADLINE) for runs in forms.values()]
    separable = [count_separable(runs) for runs in headlines]
    compounds = [standardise_compounds(runs, bootstrap=bootstrap) for runs in headlines]
    bounds = [
        compute_bounds(runs, Path(ASSEMBLED), allow_unmentioned_objects=allow_unmentioned_objects)
        for runs in headlines
    ]
    run = RunConfig(
        BASE,
        replace(compute, device=resolve_device(compute.device)),
        batch_size,
        str(_get_store(execution)),
        execution.executor,
        get_gpus_per_worker(execution.gpus, compute.device),
    )
    distance = compute_distances(folders, BASE, held_out, run, execution.folder)
    retention = compute_retention(evaluation.metrics, evaluation.similarities, distance, bootstrap=bootstrap)
    return EvaluationTables(
        *evaluation[:3],
        variants=summarise_variants(_select_instance_rows(evaluation.metrics, folders)),
        differences=pd.concat(differences, ignore_index=True),
        separability=pd.concat(separable, ignore_index=True),
        compounds=pd.concat(compounds, ignore_index=True),
        bounds=pd.concat(bounds, ignore_index=True),
        retained=retention,
    )


def _plan_variant_runs(
    tuned: Sequence[tuple[str, int]], folders: Mapping[str, str]
) -> dict[str, tracking.PlannedRun]:
    """Return the MLflow run above the runs of each variant's seeds; other weights or data make other runs."""
    data = [ASSEMBLED, SCENES]
    versions = tracking.get_data_versions(data, Path())
    runs = {}
    for variant in dict.fromkeys(variant for variant, _ in tuned):
        seeds = [seed for of, seed in tuned if of == variant]
        weights = [hash_content(f"open_clip:{folders[f'{variant}-{seed}']}") for seed in seeds]
        runs[variant] = tracking.plan_run(
            f"evaluate {variant}",
            key=compute_fingerprint(__name__, variant, seeds, weights, versions),
            params={"variant": variant, "seeds": seeds},
            data=data,
            tags={"stage": "evaluate", "variant": variant, "benchmark": FORMS[0], "level": "variant"},
        )
    return runs


def _get_store(execution: Execution) -> Path:
    return execution.folder / "embeddings"


def _list_retention_sources(split: str, count: int, seed: int) -> list[BenchmarkSource]:
    """Return the benchmarks that measure retention on the source's pairs; ``CLASSES`` needs single-object images."""
    options = {"split": split, "count": count, "seed": seed}
    names = [
        RETRIEVAL,
        *([CLASSES] if len(select_single_object_pairs(Path(SCENES), split, count, seed)) else []),
    ]
    return [BenchmarkSource(name, SCENES, SCENES, options, dvc=(SCENES,)) for name in names]


def _select_instance_rows(rows: pd.DataFrame, models: Container[str]) -> pd.DataFrame:
    """Return the rows of these models on the assembled instances."""
    return rows[
        [m in models and b == "instances" for m, b in zip(rows["model"], rows["benchmark"], strict=True)]
    ]


def list_checkpoints(
    tuned: Sequence[tuple[str, int]],
) -> tuple[Mapping[str, str], Mapping[str, Mapping[str, str]]]:
    """Return the checkpoint folders and the MLflow tags of the base and the fine-tuned models, by name.

    Raises:
        BackendError: a checkpoint's folder is missing.
    """
    folders = {BASE: "data/base"} | {f"{v}-{s}": f"data/finetune/{v}-{s}" for v, s in tuned}
    tags: dict[str, dict[str, str]] = {BASE: {"variant": BASE}}
    tags |= {f"{v}-{s}": {"variant": v, "seed": str(s)} for v, s in tuned}
    for name, path in folders.items():
        if not Path(path).is_dir():
            raise BackendError(f"Model {name!r} has no checkpoint at {path!r}. Run `dvc repro`.")
    return folders, tags
