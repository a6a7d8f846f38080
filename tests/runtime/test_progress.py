import json
from pathlib import Path

import pytest

from caramel.runtime.progress import draw_graph, format_seconds, format_start, list_inputs, main

GRAPH = """stages:
  demo: # the first
    cmd: python pipelines/demo.py
    deps: [pipelines/demo.py]
    outs: [data/demo]
  middle:
    cmd: python pipelines/middle.py
    deps: [pipelines/middle.py, data/demo/rows.parquet]
    outs:
      - data/middle/rows.parquet: {cache: true}
  last:
    cmd: python pipelines/last.py
    deps: [pipelines/last.py, data/demo, data/middle]
    metrics: [data/last.json]
"""
TIMES = {"demo": 2.0, "middle": 30.0, "last": 200.0}


def write_runs(seconds: dict[str, float], profile: str = "default") -> None:
    Path("work").mkdir(exist_ok=True)
    rows = [{"stage": s, "profile": profile, "seconds": t, "peak_mb": 1} for s, t in seconds.items()]
    Path("work/timings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def ship(seconds: dict[str, float]) -> None:
    Path("docs").mkdir()
    Path("docs/timings.json").write_text(json.dumps({"profile": "default", "seconds": seconds}))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dvc.yaml").write_text(GRAPH)


@pytest.mark.usefixtures("project")
def test_a_stage_says_its_number_its_time_and_the_most_that_is_left() -> None:
    write_runs({**TIMES, "demo": 99.0})
    assert format_start("middle", "default") == (
        "Stage 2 of 3: middle, about 30 s; at most 4 min left by the last run's times"
    )
    assert format_start("last", "default") == (
        "Stage 3 of 3: last, about 3 min; at most 3 min left by the last run's times"
    )


@pytest.mark.usefixtures("project")
def test_times_of_another_profile_are_not_taken_nor_a_part_for_the_whole() -> None:
    write_runs(TIMES, "smoke")
    assert format_start("middle", "default") == "Stage 2 of 3: middle"
    write_runs({"middle": 30.0})
    assert format_start("middle", "default") == "Stage 2 of 3: middle, about 30 s"


@pytest.mark.usefixtures("project")
def test_shipped_times_stand_in_for_stages_that_never_ran_here() -> None:
    ship(TIMES)
    write_runs({"middle": 10.0})
    assert format_start("middle", "default") == (
        "Stage 2 of 3: middle, about 10 s; at most 4 min left by the times in docs/timings.json"
    )
    assert format_start("middle", "smoke") == "Stage 2 of 3: middle"


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"profile": "default"}', '{"profile": "default", "seconds": [1]}']
)
@pytest.mark.usefixtures("project")
def test_broken_shipped_times_are_as_none(text: str) -> None:
    ship({})
    Path("docs/timings.json").write_text(text)
    assert format_start("demo", "default") == "Stage 1 of 3: demo"


def test_without_a_graph_or_outside_of_it_a_stage_says_nothing(project: None) -> None:
    assert format_start("other", "default") is None
    Path("dvc.yaml").write_text("- no graph")
    assert format_start("demo", "default") is None
    Path("dvc.yaml").unlink()
    assert format_start("demo", "default") is None


def test_the_picture_shows_each_stage_below_what_it_builds_on_directly() -> None:
    from caramel.io.safe_yaml import parse_yaml

    graph = parse_yaml(GRAPH, "")["stages"]
    assert list_inputs(graph) == {"demo": [], "middle": ["demo"], "last": ["demo", "middle"]}
    lines = draw_graph(graph, TIMES, "the last run's times").splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["1", "demo", "2", "s"],
        ["2", "middle", "30", "s", "←", "demo"],
        ["3", "last", "3", "min", "←", "middle"],
    ]
    assert lines[3].startswith("At most 4 min by the last run's times")
    assert "At most" not in draw_graph(graph, {"demo": 2.0}, "")


def test_times_are_told_in_seconds_or_minutes() -> None:
    assert [format_seconds(s) for s in (0.2, 41.6, 99.4, 150)] == ["1 s", "42 s", "99 s", "2 min"]


def test_a_graph_that_is_missing_is_one_message(project: None) -> None:
    Path("dvc.yaml").unlink()
    with pytest.raises(SystemExit, match=r"Error: dvc.yaml is missing. Run this in the project's folder."):
        main()
