"""The data of the explore page come from the files that were scored, and a wrong release is an error."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from explored import write_release, write_results

from caramel.errors import DataError
from caramel.evaluation.benchmark_source import BenchmarkSource
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


def test_of_too_many_images_evenly_spaced_ones_are_embedded(release: Path) -> None:
    page = build(release, max_images=3)
    assert (page.instances, page.images) == (12, 3)
    assert page.notes == ["3 of 8 images are embedded (--max-images)."]


def test_images_that_are_missing_are_counted(release: Path) -> None:
    (release / "000000000002.jpg").unlink()
    page = build(release)
    assert page.images == 7
    assert page.notes == ["1 images cannot be read; give their folder with --images."]


def test_files_of_another_release_are_refused(release: Path) -> None:
    write_release(release, {"replace_att": [("Another text.", "A blue cup.")] * 12})
    with pytest.raises(DataError, match=r"12 instances of the results .* other\s+texts"):
        build(release)


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
