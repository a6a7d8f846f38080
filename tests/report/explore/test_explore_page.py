"""The data of the explore page come from the files that were scored, and a wrong release is an error."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from explored import write_release, write_results

from caramel.benchmarks.content import hash_texts
from caramel.errors import DataError
from caramel.evaluation.benchmark_source import BenchmarkSource
from caramel.interfaces.benchmark import ImageFile, Rankings
from caramel.registry import BENCHMARKS
from caramel.report.explore.instances import collect_instances
from caramel.report.explore.page import ExplorePage, build_explore_page, read_blind_solutions

CAPTIONS = {"replace_att": [(f"A red cup {n}.", f"A blue cup {n}.") for n in range(12)]}


@pytest.fixture
def release(tmp_path: Path) -> Path:
    write_release(tmp_path / "sugarcrepe", CAPTIONS)
    write_results(tmp_path / "results", tmp_path / "sugarcrepe", {"model": [1.0] * 12})
    return tmp_path / "sugarcrepe"


def build(release: Path, **options: object) -> ExplorePage:
    settings = {"blind": {}, "thumbnail": 64, "max_images": 100, **options}
    source = BenchmarkSource("sugarcrepe", str(release), str(release))
    return build_explore_page([release.parent / "results"], [source], **settings)  # type: ignore[arg-type]


def read_embedded(html: str) -> str:
    match = re.search(r'<script[^>]*id="embedded"[^>]*>(.*?)</script>', html, re.DOTALL)
    assert match
    return match[1]


def test_of_too_many_images_evenly_spaced_ones_are_embedded(release: Path) -> None:
    page = build(release, max_images=3)
    assert (page.instances, page.images) == (12, 3)
    assert page.notes == ["3 of 8 images are embedded (--max-images)."]


def test_images_that_are_missing_are_counted(release: Path) -> None:
    (release / "000000000002.jpg").unlink()
    page = build(release)
    assert page.images == 7
    assert page.notes == ["1 image cannot be read; give their folder with --images."]


def test_files_of_another_release_are_refused(release: Path) -> None:
    write_release(release, {"replace_att": [("Another text.", "A blue cup.")] * 12})
    with pytest.raises(DataError, match=r"12 instances of the results .* other\s+texts"):
        build(release)


def test_with_errata_the_page_has_the_texts_that_were_scored(release: Path) -> None:
    errata = release.parent / "errata.jsonl"
    row = {"benchmark": "sugarcrepe", "release": "made up", "instance": "replace_att-1", "reason": "not blue"}
    texts = {"field": "negative_caption", "from": "A blue cup 1.", "to": "A green cup 1."}
    errata.write_text(json.dumps(row | texts))
    source = BenchmarkSource("sugarcrepe", str(release), str(release), errata=str(errata))

    def read_values() -> dict[str, Any]:
        page = build_explore_page(
            [release.parent / "results"], [source], blind={}, thumbnail=64, max_images=0
        )
        values: dict[str, Any] = json.loads(read_embedded(page.html))["benchmarks"][0]
        return values

    values = read_values()
    erratum = [1, "negative_caption", "A blue cup 1.", "A green cup 1.", "not blue"]
    assert (values["texts"][1][1], values["errata"]) == ("A blue cup 1.", [erratum])
    corrected = [(a, "A green cup 1." if n == 1 else b) for n, (a, b) in enumerate(CAPTIONS["replace_att"])]
    again = release.parent / "again"
    write_release(again, {"replace_att": corrected})
    write_results(release.parent / "results", again, {"model": [1.0] * 12})
    values = read_values()
    assert (values["texts"][1][1], values["errata"]) == ("A green cup 1.", [erratum])


def test_an_audit_of_another_data_set_is_refused(release: Path) -> None:
    with pytest.raises(DataError, match="No row of the audit"):
        build(release, blind={"elsewhere-1": True})


def test_only_the_best_blind_attacker_of_an_audit_counts(tmp_path: Path) -> None:
    rows = {
        "pair_id": ["a", "a", "b"],
        "scorer": ["length", "best_blind_attacker", "best_blind_attacker"],
        "gap": [1.0, -0.5, 0.5],
    }
    pd.DataFrame(rows).to_parquet(tmp_path / "pairs.parquet")
    assert read_blind_solutions(tmp_path) == {"a": False, "b": True}
    with pytest.raises(DataError, match="caramel audit --out"):
        read_blind_solutions(tmp_path / "elsewhere")


def test_a_folder_without_metrics_is_refused(release: Path) -> None:
    (release.parent / "results/metrics.parquet").unlink()
    with pytest.raises(DataError, match=r"metrics\.parquet"):
        build(release)


def test_each_models_texts_are_checked(release: Path) -> None:
    write_release(release.parent / "other", {"replace_att": [("Another text.", "A blue cup.")] * 12})
    write_results(release.parent / "elsewhere", release.parent / "other", {"second": [1.0] * 12})
    source = BenchmarkSource("sugarcrepe", str(release), str(release))
    runs = [release.parent / "results", release.parent / "elsewhere"]
    with pytest.raises(DataError, match="12 instances"):
        build_explore_page(runs, [source], blind={}, thumbnail=64, max_images=1)


def test_a_ranking_shows_its_query_and_true_candidates() -> None:
    rows = [
        {"instance_id": "a", "image_id": "0", "subsets": ["x"], "direction": "i2t", "query": 0, "pool": 0, "true": [1]},
        {"instance_id": "b", "image_id": "1", "subsets": ["x"], "direction": "t2i", "query": 0, "pool": 0, "true": [1]},
    ]  # fmt: skip
    images = [ImageFile("0.jpg"), ImageFile("1.jpg")]
    task = Rankings(pd.DataFrame(rows), images, [("A dog.",), ("A cat.", "Cat!")], [np.array([0, 1])])
    scored = pd.DataFrame(rows)[["instance_id", "image_id", "subsets"]].assign(
        model="m", texts_hash=hash_texts(task), n_above=[0.0, 3.0], n_tied=[1.0, 0.0]
    )
    metrics = pd.DataFrame(columns=["metric", "model", "subset", "value", "ci_low", "ci_high", "n"])
    values = collect_instances(BENCHMARKS["crepe_retrieval"], task, scored, metrics, {}).values
    assert values["texts"] == [["A cat.", None, None], ["A dog.", None, None]]
    assert values["images"] == [[0, -1], [1, -1]]
    assert values["verdicts"]["recall@1"] == ["tw"]
    assert values["defects"] == {}
