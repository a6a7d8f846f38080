"""`caramel benchmarks` lists the benchmarks and says where their files go."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from file_server import CONTENT, Source, serve

from caramel.benchmarks import fetch
from caramel.benchmarks.fetch import Download, File

Call = Callable[..., tuple[int, str, str]]


def test_an_unknown_benchmark_lists_the_known_ones(eval_call: Call) -> None:
    code, _, err = eval_call("benchmarks", "sugarcreep")
    assert code == 1
    assert "Did you mean 'sugarcrepe'?" in err


def test_every_benchmark_says_what_to_put_where_and_what_it_was_checked_against(eval_call: Call) -> None:
    from caramel.registry import BENCHMARKS

    for name in BENCHMARKS:
        code, out, _ = eval_call("benchmarks", name)
        assert code == 0
        assert "Checked against: " in out
        assert len(out.splitlines()) >= 4, name


def test_the_command_prints_licence_and_files(eval_call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    file = File("a.json", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    with serve(Source()) as source:
        monkeypatch.setitem(
            fetch.DOWNLOADS, "sugarcrepe", Download(source.url, "MIT", (file,), "images of COCO")
        )
        code, out, _ = eval_call("benchmarks", "sugarcrepe", "--fetch", "public")
        assert code == 0
        assert "Licence: MIT" in out
        assert "a.json: fetched, SHA-256 is right" in out
        assert "Not fetched: images of COCO." in out
        assert Path("public/sugarcrepe/a.json").read_bytes() == CONTENT
    code, _, err = eval_call("benchmarks", "winoground", "--fetch", "public")
    assert code == 1
    assert "caramel does not fetch 'winoground'" in err
    code, _, err = eval_call("benchmarks", "--fetch", "public")
    assert code == 2
