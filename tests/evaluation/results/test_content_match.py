"""Where it is not known what instances ask, that they are the same is known by their ids alone, and is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from caramel.cli.commands import cli
from caramel.errors import DataError
from caramel.evaluation.external.run_files import write_metrics
from caramel.evaluation.external.runs import compute_file_metrics
from caramel.evaluation.results.comparison import compare_models
from caramel.evaluation.results.content_match import note_unknown_contents
from caramel.evaluation.results.frames import compare_frames, compute_frame_metrics
from caramel.evaluation.results.run_hits import compute_run_hits
from caramel.registry import BENCHMARKS
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame, write_table
from caramel.utils.resampling import Bootstrap

SUGARCREPE = BENCHMARKS["sugarcrepe"]
BY_ID = "by their ids alone"


def scored(model: str, seed: int, hashed: bool, n: int = 12) -> pd.DataFrame:
    names = [f"i{i}" for i in range(n)]
    rows = pd.DataFrame(np.random.default_rng(seed).normal(size=(n, 2)), columns=["s_c0_i0", "s_c1_i0"])
    return build_frame(
        SIMILARITIES,
        rows.assign(
            model=model,
            benchmark="sugarcrepe",
            instance_id=names,
            image_id=names,
            subsets=[["swap", "swap_obj"]] * n,
            texts_hash=names if hashed else None,
        ),
    )


def saved(folder: Path, *rows: pd.DataFrame) -> str:
    folder.mkdir()
    write_table(SIMILARITIES, pd.concat(rows, ignore_index=True), folder / "similarities.parquet")
    return str(folder)


def of_others(path: Path, model: str) -> Path:
    rows = {"instance_id": [f"i{i}" for i in range(8)], "correct": [True] * 8, "model": model}
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_instances_that_several_models_share_are_counted_where_one_does_not_say_its_texts() -> None:
    a, b = scored("a", 1, hashed=True), scored("b", 2, hashed=False)
    assert note_unknown_contents([a, scored("b", 2, hashed=True)]) == []
    assert note_unknown_contents([b]) == note_unknown_contents([]) == []
    assert note_unknown_contents([a, b.assign(instance_id="other" + b["instance_id"])]) == []
    (note,) = note_unknown_contents([a, b.iloc[:5], scored("c", 3, hashed=True)])
    assert note.startswith("5 of 12 instances")
    assert BY_ID in note


def test_different_releases_are_found_where_the_first_run_does_not_know_its_images() -> None:
    first, second, third = (
        scored(name, seed, hashed=True).assign(images_hash=images)
        for seed, (name, images) in enumerate((("a", None), ("b", "old"), ("c", "new")))
    )
    of_others = "12 of 12 instances have the same id but different images"
    with pytest.raises(DataError, match=of_others):
        compare_models([first], [second, third], bootstrap=Bootstrap(10, 0))
    with pytest.raises(DataError, match=of_others):
        compute_run_hits(pd.concat([first, second, third]), "sugarcrepe", ["itt"])
    compute_run_hits(pd.concat([first, second]), "sugarcrepe", ["itt"])


def test_a_comparison_says_it_once_and_says_nothing_where_all_is_known(tmp_path: Path) -> None:
    a, b = (saved(tmp_path / name, scored("m", n, hashed=True)) for n, name in enumerate("ab"))
    other = saved(tmp_path / "other", scored("m", 2, hashed=False))
    assert BY_ID not in printed("compare", a, b)
    assert printed("compare", a, other).count(BY_ID) == 1
    found = compare_frames(
        scored("m", 1, hashed=False), scored("m", 2, hashed=True), bootstrap=Bootstrap(100, 0)
    )
    assert len(found.attrs["notes"]) == 1


def test_metrics_of_our_file_beside_one_of_others_say_it(tmp_path: Path) -> None:
    ours = saved(tmp_path / "ours", scored("a", 1, hashed=True))
    theirs = of_others(tmp_path / "theirs.csv", "b")
    printed_text = printed(
        "metrics", "--benchmark", "sugarcrepe", ours, str(theirs), "--out", str(tmp_path / "out")
    )
    assert printed_text.count(f"Note: 8 of 12 instances are matched between models {BY_ID}") == 1
    alone = compute_file_metrics([theirs], SUGARCREPE, bootstrap=Bootstrap(100, 0))
    assert not [note for note in alone.attrs["notes"] if BY_ID in note]
    both = pd.concat([scored("a", 1, hashed=True), scored("b", 2, hashed=False)], ignore_index=True)
    assert len(compute_frame_metrics(both, None, bootstrap=Bootstrap(100, 0)).attrs["notes"]) == 1


@pytest.mark.parametrize("style", ["markdown", "latex", "csv"])
def test_a_table_says_it_in_every_style(style: str, tmp_path: Path) -> None:
    ours = saved(tmp_path / "ours", scored("a", 1, hashed=True))
    unknown = saved(tmp_path / "unknown", scored("b", 2, hashed=False))
    known = saved(tmp_path / "known", scored("b", 2, hashed=True))
    of_table = ["--benchmark", "sugarcrepe", "--n-bootstrap", "100", "--style", style]
    assert printed("table", ours, unknown, *of_table).count(BY_ID) == 1
    assert BY_ID not in printed("table", ours, known, *of_table)


def test_a_table_names_the_runs_whose_instances_are_not_there(tmp_path: Path) -> None:
    ours = saved(tmp_path / "ours", scored("a", 1, hashed=True))
    (tmp_path / "theirs").mkdir()
    write_metrics(
        compute_file_metrics([of_others(tmp_path / "b.csv", "b")], SUGARCREPE, bootstrap=Bootstrap(100, 0)),
        tmp_path / "theirs",
    )
    of_table = ["--benchmark", "sugarcrepe", "--style", "latex"]
    text = printed("table", ours, str(tmp_path / "theirs"), *of_table)
    assert text.count("Runs with metrics but without their instances") == 1
    assert "without their instances" not in printed("table", str(tmp_path / "theirs"), *of_table)
