"""Check names, files, images and the compatibility of models with benchmarks before any model is loaded."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence

import pandas as pd
from tqdm import tqdm

from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.present_images import format_exclusion
from caramel.benchmarks.tasks import format_rejects, list_rejects
from caramel.errors import BackendError, CaramelError
from caramel.evaluation.benchmark_source import (
    BenchmarkSource,
    build_rejects,
    check_instances,
    hash_task,
    read_task,
    select_scorable,
)
from caramel.evaluation.compatibility import find_incompatibility
from caramel.interfaces.benchmark import Task
from caramel.models.specs import get_family, missing_of, parse_spec
from caramel.registry import BENCHMARKS
from caramel.schemas.io import build_frame
from caramel.schemas.rejects import REJECTS


def find_problems(
    models: Sequence[str], sources: Sequence[BenchmarkSource], limit: int | None = None
) -> list[str]:
    """Return all problems that prevent the evaluation, one entry each, without loading a model."""
    problems, known = find_duplicate_names(models, sources), []
    for model in models:
        try:
            problems += [f"model {model!r}: {line}" for line in missing_of(model)]
            known.append(model)
        except BackendError as error:  # its family cannot be determined
            problems.append(str(error))
    for source in sources:
        try:
            task = read_task(source, limit)
            check_instances(task, source)
            problems += _find_incompatibilities(known, source, task)
            if any(get_family(model).looks_at_images for model in known):
                check_images(select_scorable(task, source, True).images, source.benchmark)
        except CaramelError as error:
            problems.append(f"benchmark {source.benchmark!r}: {error}")
    return problems


def find_duplicate_names(models: Sequence[str], sources: Sequence[BenchmarkSource]) -> list[str]:
    """Return a message for each model name or benchmark that is given more than once."""
    messages = []
    for what, names in (
        ("model", [parse_spec(model).name for model in models if _is_known(model)]),
        ("benchmark", [source.benchmark for source in sources]),
    ):
        messages += [
            f"{what} {name!r} is given {names.count(name)} times. Give each {what} once"
            f"{', with a name of its own: NAME=SPEC' if what == 'model' else ''}."
            for name in dict.fromkeys(names)
            if names.count(name) > 1
        ]
    return messages


def _is_known(model: str) -> bool:
    """Return whether the family of a spec can be determined."""
    try:
        parse_spec(model)
    except BackendError:
        return False
    return True


def hash_contents(
    models: Sequence[str], sources: Sequence[BenchmarkSource], limit: int | None
) -> tuple[dict[tuple[str, bool], str], pd.DataFrame]:
    """Check all benchmarks; return (benchmark, whether images are used) -> hash of its content, and the rejects.

    Raises:
        DataError: captions or images are missing or broken.
        BackendError: a model cannot be scored on a benchmark.
    """
    with_images = {get_family(model).looks_at_images for model in models}
    hashes: dict[tuple[str, bool], str] = {}
    problems: list[str] = []
    rejects: list[pd.DataFrame] = []
    for source in sources:
        task = read_task(source, limit)
        check_instances(task, source)
        left_out = list_rejects(task)
        if left_out:
            tqdm.write(format_rejects(left_out, source.benchmark), file=sys.stderr)
        rejects.append(build_rejects(task, source.benchmark))
        problems += _find_incompatibilities(models, source, task)
        if not problems:
            for looking in with_images:
                part = select_scorable(task, source, looking)
                if part.left_out is not None:
                    line = format_exclusion(part.left_out, source.benchmark, len(part.rows))
                    tqdm.write(line, file=sys.stderr)
                keys = check_images(part.images, source.benchmark) if looking else []
                whole = hashlib.sha256(b"".join([*keys, hash_task(part)])).hexdigest()
                hashes[source.benchmark, looking] = whole[:32]
    if problems:
        raise BackendError("\n".join(problems))
    return hashes, build_frame(REJECTS, pd.concat(rejects, ignore_index=True) if rejects else [])


def _find_incompatibilities(models: Sequence[str], source: BenchmarkSource, task: Task) -> list[str]:
    """Return the reasons why models cannot be scored on a task, one line each."""
    reasons = [find_incompatibility(model, BENCHMARKS[source.benchmark], task) for model in models]
    return [reason for reason in reasons if reason]
