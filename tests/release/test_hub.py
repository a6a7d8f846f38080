"""A finished release is sent to the hub as one commit; without ``--yes`` nothing is sent."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import released_projects
from hub_server import LARGE, TOKEN, Hub, serve_hub

from caramel.errors import ConfigError, DataError
from caramel.release.hub import list_release_files, parse_hub_address
from caramel.release.publishing.build import write_sums


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve_hub() as served:
        yield served


def call(hub: Hub, folder: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run caramel as a user would, with the hub's address and a token in the environment."""
    environment = {
        **os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(folder / "hf"), "no_proxy": "*", **changes,
    }  # fmt: skip
    command = [str(Path(sys.executable).with_name("caramel")), *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_release_is_shown_first_and_sent_with_yes(tmp_path: Path, hub: Hub) -> None:
    project = released_projects.made(tmp_path)
    words = ("release", "v1", "--out", "out", "--no-audit", "--push", "hf://datasets/lab/set")
    shown = call(hub, project, *words)
    assert shown.returncode == 0, shown.stderr
    assert "Nothing was sent. --yes sends" in shown.stdout
    assert f"{hub.url}/datasets/lab/set" in shown.stdout
    assert not hub.bodies, "not even a question is asked"

    hub.files = {"data/old-00000-of-00009.parquet": b"x", ".gitattributes": b"y"}
    sent = call(hub, project, *words, "--yes")
    assert sent.returncode == 0, sent.stderr
    assert "Version v1: " not in sent.stdout, "the finished release is not built again"
    assert f"Sent as one commit: {hub.url}/datasets/lab/set/commit/" in sent.stdout
    files = {name: (project / "out" / name).read_bytes() for name in list_release_files(project / "out")}
    assert hub.files == {**files, ".gitattributes": b"y"}
    assert [commit["summary"] for commit in hub.commits] == ["Version v1"]
    assert hub.commits[0]["parentCommit"] == "0" * 40
    assert hub.created[0]["visibility"] == "private"
    assert any(len(data) >= LARGE for data in files.values()), "both ways of sending are used"
    assert set(hub.authorized) == {f"Bearer {TOKEN}"}
    assert TOKEN.encode() not in b"".join(hub.bodies)
    assert TOKEN not in sent.stdout + sent.stderr + shown.stdout


def test_a_finished_release_of_other_options_is_not_sent(tmp_path: Path, hub: Hub) -> None:
    project = released_projects.made(tmp_path)
    words = ("release", "v1", "--out", "out", "--no-audit", "--push", "hf://datasets/lab/set", "--yes")
    (project / "about.yaml").write_text("title: Another title\n", encoding="utf-8")
    assert call(hub, project, *(word for word in words if word != "--yes")).returncode == 0
    with_audit = [word for word in words if word != "--no-audit"]
    for name, changed in {
        "another --audit": with_audit,
        "another --since": [*words, "--since", "v1"],
        "another --about": [*words, "--about", "about.yaml"],
    }.items():
        refused = call(hub, project, *changed)
        assert refused.returncode == 1
        assert f"{name}. Give a new folder with --out" in refused.stderr
    (project / "release.yaml").write_text("title: Edited\n", encoding="utf-8")
    assert "another --about" in call(hub, project, *words).stderr
    assert not hub.commits


def test_a_finished_release_with_open_points_is_not_sent_with_strict(tmp_path: Path, hub: Hub) -> None:
    project = released_projects.made(tmp_path)
    (project / "release.yaml").unlink(missing_ok=True)
    words = ("release", "v1", "--out", "out", "--no-audit", "--push", "hf://datasets/lab/set")
    assert "points are open" in call(hub, project, *words).stderr
    refused = call(hub, project, *words, "--strict", "--yes")
    assert refused.returncode == 1
    assert re.search(r"it has \d+ open points\. Give a new folder", refused.stderr)
    assert not hub.commits


def test_a_model_is_sent_to_a_repository_of_models(tmp_path: Path, hub: Hub, clip_folder: Path) -> None:
    project = released_projects.made(tmp_path)
    shutil.copytree(clip_folder, project / "data" / "base")
    released_projects.pinned(project, "v2")
    words = ("release-model", "base", "--out", "out", "--push", "hf://lab/set", "--yes")
    sent = call(hub, project, *words)
    assert sent.returncode == 0, sent.stderr
    assert f"Sent as one commit: {hub.url}/models/lab/set/commit/" in sent.stdout
    weights = "open_clip_model.safetensors"
    assert hub.files[weights] == (project / "out" / weights).read_bytes()
    assert set(hub.files) == set(list_release_files(project / "out"))
    again = call(hub, project, *words[:-1])
    assert "for open_clip" not in again.stdout, "the finished release is not built again"
    assert f"to {hub.url}/lab/set as" in again.stdout
    (project / "release.yaml").write_text("title: Edited\n", encoding="utf-8")
    edited = call(hub, project, *words)
    assert edited.returncode == 1
    assert "another --about" in edited.stderr
    assert len(hub.commits) == 1
    assert call(hub, project, *words[:4], "--yes").returncode == 2, "--yes without --push"


def test_a_refusal_is_one_error_without_the_token_and_keeps_the_release(tmp_path: Path, hub: Hub) -> None:
    project = released_projects.made(tmp_path)
    words = ("release", "v1", "--out", "out", "--no-audit", "--push", "hf://datasets/lab/set", "--yes")
    hub.refusal = (403, f"{TOKEN} may not write")
    refused = call(hub, project, *words)
    assert refused.returncode == 1
    assert "was not sent" in refused.stderr
    assert TOKEN not in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stderr
    assert list_release_files(project / "out")
    without = call(hub, project, *words, HF_TOKEN="")
    assert "set HF_TOKEN" in without.stderr
    offline = call(hub, project, *words, HF_HUB_OFFLINE="1")
    assert "HF_HUB_OFFLINE" in offline.stderr


def test_a_changed_file_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match="holds no finished release"):
        list_release_files(tmp_path)
    write_sums(tmp_path)
    assert list_release_files(tmp_path) == {"a.json": 2, "SHA256SUMS": 73}
    (tmp_path / "a.json").write_text("[]", encoding="utf-8")
    with pytest.raises(DataError, match=r"1 files .* differ(.|\n)*a\.json"):
        list_release_files(tmp_path)
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  ../secret\n", encoding="utf-8")
    with pytest.raises(DataError, match="secret"):
        list_release_files(tmp_path)


@pytest.mark.parametrize(
    ("address", "repo_type"),
    [
        ("lab/set", "dataset"),
        ("hf://lab/set", "dataset"),
        ("hf://datasets/lab", "dataset"),
        ("hf://datasets/lab/set", "model"),
        ("hf://datasets/lab/..set", "dataset"),
    ],
)
def test_another_form_of_address_is_refused(address: str, repo_type: str) -> None:
    with pytest.raises(ConfigError, match="--push"):
        parse_hub_address(address, repo_type)


def test_an_address_names_its_repository() -> None:
    assert parse_hub_address("hf://datasets/lab/set", "dataset") == ("dataset", "lab/set")
    assert parse_hub_address("hf://lab/model", "model") == ("model", "lab/model")
