"""Fixtures of the tests of commands: a function that runs a command in an empty project, or beside a small benchmark."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_releases import write_sugarcrepe

from caramel import cli

ROOT = Path(__file__).parents[2]


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs a command in an empty project: exit code, stdout, stderr."""
    shutil.copytree(ROOT / "params", tmp_path / "params")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


@pytest.fixture
def eval_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs a command beside data/sugarcrepe and images/: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    Path("images").mkdir()
    colours = ("red", "blue", "green", "black")
    pairs = [
        (
            f"A {colours[n % 4]} car and a {colours[(n + 1) % 4]} cup number {n}.",
            f"A {colours[(n + 2) % 4]} car and a {colours[n % 4]} cup number {n}.",
        )
        for n in range(16)
    ]
    write_sugarcrepe(Path("data/sugarcrepe"), dict.fromkeys(("replace_att", "swap_att"), pairs), 8)
    for n in range(8):
        pixels = np.random.default_rng(n).integers(0, 255, (48, 64, 3), dtype=np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG")
        Path("images", f"{n:012}.jpg").write_bytes(file.getvalue())

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run
