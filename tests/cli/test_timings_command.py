"""`caramel timings` prints the latest run of each stage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Call = Callable[..., tuple[int, str, str]]


def test_timings_are_of_the_latest_run_of_each_stage(call: Call) -> None:
    rows = [("scenes", 5.0, 100), ("refine", 2.0, 300), ("scenes", 7.5, 200)]
    Path("work").mkdir()
    with Path("work", "timings.jsonl").open("w", encoding="utf-8") as stream:
        for stage, seconds, peak in rows:
            row = {"stage": stage, "profile": "smoke", "seconds": seconds, "peak_mb": peak}
            stream.write(json.dumps(row) + "\n")
    code, out, _ = call("timings")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[1:] == [
        ["refine", "smoke", "2.0", "s", "300", "MB"],
        ["scenes", "smoke", "7.5", "s", "200", "MB"],
        ["total", "9.5", "s", "300", "MB"],
    ]


def test_damaged_lines_of_the_timings_are_left_out_and_counted(call: Call) -> None:
    Path("work").mkdir()
    row = {"stage": "a\x1b[2K", "profile": "smoke", "seconds": 5.0, "peak_mb": 1}
    lines = [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"stage": "b"}', b"[" * 5000]
    for key, value in (
        ("stage", 1),
        ("seconds", -3.5),
        ("seconds", float("nan")),
        ("seconds", "5"),
        ("peak_mb", None),
    ):
        lines.append(json.dumps({**row, key: value}).encode())
    lines.append(json.dumps(row).encode())
    Path("work", "timings.jsonl").write_bytes(b"\n".join(lines))
    code, out, err = call("timings")
    assert code == 0
    assert out.splitlines()[1].split() == [r"a\x1b[2K", "smoke", "5.0", "s", "1", "MB"]
    assert err.startswith("Skipped damaged lines of work/timings.jsonl: 12.")
    Path("work", "timings.jsonl").write_bytes(b"{")
    assert "has no run of a stage" in call("timings")[2]
