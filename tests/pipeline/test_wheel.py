"""The built wheel, installed where the sources are not, gives the command, the library and the package's data."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from caramel.project.project_files import read_template

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
import numpy as np, pandas as pd, caramel
assert "site-packages" in caramel.__file__, caramel.__file__
rows = pd.read_csv(sys.argv[1])
found = caramel.audit_captions(rows, scorers=["casing"], folds=2)
assert found.best["micro"] == 1, found.best
ones = lambda items: np.ones((len(items), 2))
loaded = caramel.load_benchmark("zero_shot", sys.argv[2])
scores = caramel.score((ones, ones), loaded, n_bootstrap=100)
assert scores.metrics["ties"].max() == len(loaded) == 2
from caramel.report.published_rows import read_published_rows
print(len(read_published_rows()), "published rows")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources by the pinned tools, without a network."""
    copy = tmp_path_factory.mktemp("sources")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith(("tests/", "docs/", "bench/")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    out = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(out)]
    done = _ran([sys.executable, "-m", "pip", "wheel", *options, str(copy)], cwd=out)
    assert done.returncode == 0, done.stderr
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel, and of all else what this one has installed but the sources of caramel."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    scheme = sysconfig.get_paths("venv", {"base": str(folder), "platbase": str(folder)})
    options = ["--no-deps", "--no-index", "--quiet", "--prefix", str(folder)]
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(wheel)]
    done = _ran(pip, cwd=folder)
    assert done.returncode == 0, done.stderr
    # A line of a .pth file is a folder of packages; those in it, such as an editable install's, are not followed.
    others = Path(scheme["purelib"]) / "others.pth"
    others.write_text(f"{sysconfig.get_paths()['purelib']}\n", encoding="utf-8")
    return folder / "bin"


def _ran(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without any trace of the sources in its environment, its own folder first in the path."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    kept["PATH"] = f"{Path(command[0]).parent}{os.pathsep}{kept['PATH']}"
    return subprocess.run(command, cwd=cwd, env=kept, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_wheel_holds_what_the_package_reads_beside_its_modules(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "caramel").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    sources |= {f"caramel/project/template/{name}" for name in read_template()}
    assert sources <= names, sources - names
    assert {name for name in names if name.startswith("caramel/")} == sources
    assert {"caramel/py.typed", "caramel/report/published.csv"} <= names


@pytest.mark.slow
def test_the_wheel_gives_the_command_and_the_library_anywhere(bin_folder: Path, tmp_path: Path) -> None:
    lines = [f'{i}.jpg,a cat and {i} dogs,"A dog, {i} cats too"' for i in range(30)]
    (tmp_path / "rows.csv").write_text("\n".join(["filename,caption,negative_caption", *lines]) + "\n")
    for name in ("dog", "cat"):
        (tmp_path / "zero_shot" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "zero_shot" / name / "1.png")
    (tmp_path / "zero_shot" / "classes.json").write_text('{"dog": "dog", "cat": "cat"}')
    said = _ran([str(bin_folder / "caramel"), "--help"], cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "audit" in said.stdout
    audit = ["audit", "rows.csv", "--out", "out", "--scorer", "casing", "--folds", "2"]
    said = _ran([str(bin_folder / "caramel"), *audit], cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "best_blind_attacker" in said.stdout
    assert "<html" in (tmp_path / "out" / "audit.html").read_text(encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    said = _ran([str(bin_folder / "python"), "script.py", "rows.csv", "zero_shot"], cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "published rows" in said.stdout


@pytest.mark.slow
def test_a_project_of_ones_own_runs_on_the_wheel_alone(bin_folder: Path, tmp_path: Path) -> None:
    def called(command: str, cwd: Path) -> str:
        words = command.split()
        done = _ran([str(bin_folder / words[0]), *words[1:]], cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    called("caramel new mine", tmp_path)
    project = tmp_path / "mine"
    called("caramel config use smoke", project)
    said = called("python -m dvc repro --single-item scenes", project)
    assert "Running stage 'scenes'" in said
    assert (project / "data" / "scenes" / "pairs.parquet").is_file()
    assert "code/scenes.txt" in (project / "dvc.lock").read_text()
    installed = (
        next(bin_folder.parent.rglob("caramel/registry.py")).parent / "sources" / "world" / "drawing.py"
    )
    with installed.open("a") as stream:  # as another caramel would be
        stream.write("\n")
    said = called("caramel upgrade", project)
    assert "will run again: scenes (caramel/sources/world/drawing.py)" in said
    assert "if their inputs change: " in said
    assert "again: scores" not in said
    said = called("python -m dvc status scenes", project)
    assert "code/scenes.txt" in said
