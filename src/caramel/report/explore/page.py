"""Build the page of `caramel explore`: tables of results whose cells lead to their instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from caramel.benchmarks.content import TEXTS_HASH
from caramel.benchmarks.errata import Erratum, apply_errata, read_errata
from caramel.errors import DataError, count_of, format_items
from caramel.evaluation.benchmark_source import BenchmarkSource, read_task
from caramel.evaluation.external import run_files
from caramel.interfaces.benchmark import ABSENT, ImageFile, Task
from caramel.io.offline_page import fill_offline_page
from caramel.registry import BENCHMARKS
from caramel.report.explore.instances import collect_instances
from caramel.report.explore.thumbnails import encode_thumbnails
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import read_table

FOLDER = Path(__file__).parent


class ExplorePage(NamedTuple):
    """The page, and what it holds.

    Attributes:
        html: the page.
        instances: number of instances.
        images: number of embedded images.
        notes: what the page lacks, and why.
    """

    html: str
    instances: int
    images: int
    notes: list[str]


def build_explore_page(
    runs: Sequence[Path],
    sources: Sequence[BenchmarkSource],
    *,
    blind: Mapping[str, bool],
    thumbnail: int,
    max_images: int,
) -> ExplorePage:
    """Return the page on the results in some folders.

    Args:
        runs: folders of `caramel eval`.
        sources: the benchmarks to show; their files give captions and images, their errata what is marked.
        blind: instance -> whether an audit's best blind attacker solves it.
        thumbnail: largest side of an embedded image in pixels.
        max_images: number of images to embed; of more, evenly spaced ones are.

    Raises:
        DataError: a file is missing or broken, the benchmark's files are not those that were scored, or an erratum does
            not fit its item.
    """
    similarities = run_files.read_similarities(runs)
    metrics = pd.concat([_read_metrics(run) for run in runs], ignore_index=True)
    parts, images = [], dict[ImageFile, int]()
    for source in sources:
        rows, of_benchmark = (
            frame[frame["benchmark"] == source.benchmark].reset_index(drop=True)
            for frame in (similarities, metrics)
        )
        if rows.empty:
            names = sorted(similarities["benchmark"].unique())
            raise DataError(
                f"The results hold no instance of benchmark {source.benchmark!r}. They hold:\n{format_items(names)}"
            )
        task, errata = _read_task(source, rows)
        part = collect_instances(BENCHMARKS[source.benchmark], task, rows, of_benchmark, blind, errata)
        _replace_image_numbers(part.values["images"], part.images, images)
        parts.append(part.values)
    if blind and not any(set(part["blind"]) - {"-"} for part in parts):
        raise DataError(
            "No row of the audit is an instance of the results. Give the audit of the same data set."
        )
    encoded, notes = _embed_images(list(images), thumbnail, max_images)
    html = fill_offline_page(FOLDER, {"benchmarks": parts, "images": encoded})
    embedded = sum(image is not None for image in encoded)
    return ExplorePage(html, sum(len(part["ids"]) for part in parts), embedded, notes)


def read_blind_solutions(audit: Path) -> dict[str, bool]:
    """Return instance -> whether the best blind attacker solves it, from the folder of `caramel audit`.

    Raises:
        DataError: the folder holds no such table.
    """
    from caramel.blind.text.attack import BEST
    from caramel.io.readers import iter_parquet_rows

    path = audit / "pairs.parquet"
    if not path.is_file():
        raise DataError(f"{str(path)!r} does not exist. Give a folder that `caramel audit --out` wrote.")
    rows = (values for _, values in iter_parquet_rows(path, ["pair_id", "scorer", "gap"]))
    return {str(row["pair_id"]): bool(row["gap"] > 0) for row in rows if row["scorer"] == BEST}


def list_result_benchmarks(runs: Sequence[Path]) -> list[str]:
    """Return the benchmarks of which some model has scores per instance, in the order of the results.

    Raises:
        DataError: a file is missing or broken, or no result has scores.
    """
    names = list(dict.fromkeys(run_files.read_similarities(runs)["benchmark"]))
    if not names:
        raise DataError("The results hold no scores of instances. Models that answer in words have none.")
    return names


def _read_task(source: BenchmarkSource, scored: pd.DataFrame) -> tuple[Task, list[Erratum]]:
    """Return the items that were scored, as published or corrected, and the errata of the source."""
    published = read_task(replace(source, errata=""))
    if not source.errata:
        return published, []
    errata = read_errata(Path(source.errata), source.benchmark)
    corrections = apply_errata(errata, published)
    is_corrected = scored[TEXTS_HASH].isin(set(corrections.corrected.values())).any()
    return corrections.task if is_corrected else published, errata


def _read_metrics(run: Path) -> pd.DataFrame:
    path = run / run_files.METRICS_FILES[0]
    if not path.is_file():
        raise DataError(
            f"{str(path)!r} does not exist. Give a folder that `caramel eval --out` wrote, with all its files."
        )
    return read_table(METRICS, path)


def _replace_image_numbers(
    pairs: list[list[int]], files: Sequence[ImageFile], images: dict[ImageFile, int]
) -> None:
    """Replace the numbers of a benchmark's images by those in ``images``, which gets the new ones."""
    for pair in pairs:
        pair[:] = [i if i == ABSENT else images.setdefault(files[i], len(images)) for i in pair]


def _embed_images(
    files: Sequence[ImageFile], thumbnail: int, max_images: int
) -> tuple[list[str | None], list[str]]:
    """Return the embedded images, None for one that is left out, and notes on those."""
    chosen = np.unique(
        np.linspace(0, len(files) - 1, min(max_images, len(files))).round().astype(int)
    ).tolist()
    encoded: list[Any] = [None] * len(files)
    for index, image in zip(chosen, encode_thumbnails([files[i] for i in chosen], thumbnail), strict=True):
        encoded[index] = image
    notes = []
    if len(chosen) < len(files):
        notes.append(f"{len(chosen):,} of {len(files):,} images are embedded (--max-images).")
    if missing := sum(encoded[i] is None for i in chosen):
        notes.append(f"{count_of(missing, 'image')} cannot be read; give their folder with --images.")
    return encoded, notes
