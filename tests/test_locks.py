"""The lock files name each package once for each system, with its version and hashes, and no host; so does the bill of materials."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = (
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-uv.lock",
    "requirements-sbom.lock",
    "requirements-real.lock",
)


def read_lock(name: str) -> list[tuple[Requirement, set[str]]]:
    """Return each requirement of a lock file with the SHA-256 of its files."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split("--hash=sha256:") for line in text.splitlines()]
    return [(Requirement(line[0].strip()), {digest.strip() for digest in line[1:]}) for line in lines]


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_has_one_version_and_hashes(name: str) -> None:
    for requirement, digests in read_lock(name):
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert digests, f"make lock: {requirement.name} has no hash"
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests), requirement


@pytest.mark.parametrize("name", LOCKS)
def test_no_lock_names_a_host_or_a_path(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if "/" in line or line.startswith("-")]


@pytest.mark.parametrize("python", ["3.11.2", "3.11.7", "3.12.1", "3.13.0"])
def test_a_version_of_python_finds_each_package_at_most_once(python: str) -> None:
    here = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    for name in LOCKS[:2]:
        pins = [pin for pin, _ in read_lock(name) if pin.marker is None or pin.marker.evaluate(here)]
        names = [canonicalize_name(pin.name) for pin in pins]
        assert len(names) == len(set(names))


def test_the_lock_for_development_has_the_versions_of_the_other_one() -> None:
    developed = {(pin.name, str(pin.specifier)) for pin, _ in read_lock("requirements-dev.lock")}
    assert {(pin.name, str(pin.specifier)) for pin, _ in read_lock("requirements.lock")} <= developed


def test_every_dependency_is_locked_within_its_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for name, wanted in (
        ("requirements.lock", project["project"]["dependencies"]),
        ("requirements-dev.lock", project["project"]["optional-dependencies"]["dev"]),
        ("requirements-uv.lock", project["dependency-groups"]["installer"]),
        ("requirements-sbom.lock", project["dependency-groups"]["sbom"]),
        ("requirements-real.lock", project["dependency-groups"]["real"]),
    ):
        locked = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin, _ in read_lock(name)}
        for requirement in map(Requirement, wanted):
            assert locked[canonicalize_name(requirement.name)] in requirement.specifier, requirement


@pytest.mark.parametrize("name", LOCKS[:2])
def test_nothing_that_makes_each_import_of_ray_slow_is_installed(name: str) -> None:
    """jsonschema imports it where it is there, and it builds a parser each time: 1.2 of the 1.8 s of ``import ray``."""
    assert "rfc3987-syntax" not in {pin.name for pin, _ in read_lock(name)}


def test_the_path_to_the_sources_is_readable_in_any_locale() -> None:
    paths = [path for folder in sys.path for path in Path(folder).glob("__editable__.caramel-*.pth")]
    if not paths:
        pytest.skip("caramel is not installed from its sources")
    assert [path.read_text(encoding="ascii").strip() for path in paths] == ["../../../../src"], "make dev"


def test_the_bill_of_materials_names_each_locked_package_with_version_and_hashes(tmp_path: Path) -> None:
    tool = Path(sys.prefix, "bom")
    if not tool.is_dir():
        pytest.skip("cyclonedx-bom is not installed: make dev")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (command,) = re.findall(r"^\tPYTHONPATH=\S+ python -m cyclonedx_py (.*)$", makefile, re.MULTILINE)
    out = tmp_path / "sbom.json"
    words = command.replace("work/sbom.json", str(out)).split()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    clean["PYTHONPATH"] = str(tool)
    subprocess.run([sys.executable, "-m", "cyclonedx_py", *words], cwd=ROOT, env=clean, check=True)
    text = out.read_text(encoding="utf-8")
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "caramel")
    components = {
        (part["name"], part["version"]): {
            digest["content"] for link in part["externalReferences"] for digest in link.get("hashes", ())
        }
        for part in bill["components"]
    }
    assert components == {
        (pin.name, str(pin.specifier)[2:]): digests for pin, digests in read_lock("requirements.lock")
    }
    assert str(ROOT) not in text
    assert "file:" not in text
