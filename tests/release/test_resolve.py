"""A version is a pin, a git revision or the data on disk, and its files come from the disk or from DVC's cache."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image
from remote_projects import cached, run
from stored_images import stored

from caramel.cli.commands import run_cli as caramel
from caramel.errors import DataError
from caramel.release import pin as pins
from caramel.release.diff import diff_images, diff_versions
from caramel.release.resolve import VersionImages, resolve_version
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.pairs import PAIRS


def picture(colour: str) -> bytes:
    found = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(found, "PNG")
    return found.getvalue()


def made(root: Path, colours: dict[str, str], seed: int) -> None:
    """Make data of these images, as DVC would have, and commit it; DVC's cache keeps it."""
    shutil.rmtree(root / "data", ignore_errors=True)
    rows = [
        {"image_id": name, "data": picture(colour), "width": 8, "height": 8, "source": "x", "split": "test"}
        for name, colour in colours.items()
    ]
    (root / "data" / "scenes").mkdir(parents=True)
    stored(root / "data" / "scenes" / "images.parquet", rows)
    pairs = [
        (f"p{n}", name, f"A {colour} <b>thing</b>.", None, "test", "x")
        for n, (name, colour) in enumerate(colours.items())
    ]
    write_table(PAIRS, build_frame(PAIRS, pairs), root / "data" / "scenes" / "pairs.parquet")
    out = {"path": "data/scenes", "md5": pins.compute_dvc_hash(root / "data" / "scenes")}
    (root / "dvc.lock").write_text(
        json.dumps({"schema": "2.0", "stages": {"scenes": {"cmd": "x", "outs": [out]}}})
    )
    (root / "params.yaml").write_text(f"scenes: {{seed: {seed}}}\n")
    cached(root)
    run("git", "add", "dvc.lock", "params.yaml", root=root)
    run("git", "commit", "-qm", f"seed {seed}", root=root)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    run("git", "init", "-q", root=tmp_path)
    made(tmp_path, {"a": "red", "b": "blue", "c": "green"}, 1)
    pins.create_pin("v1", tmp_path)
    made(tmp_path, {"a": "red", "b": "yellow", "d": "pink"}, 2)
    return tmp_path


def test_a_revision_is_the_version_that_was_pinned_at_it_although_other_data_lie_on_disk(
    project: Path,
) -> None:
    pinned, revision = resolve_version("v1", project), resolve_version("HEAD~1", project)
    assert (revision.outs, revision.tables, revision.params) == (pinned.outs, pinned.tables, pinned.params)
    assert {*revision.tables} == {"data/scenes/images.parquet", "data/scenes/pairs.parquet"}
    here, head = resolve_version(".", project), resolve_version("HEAD", project)
    assert (here.outs, here.tables, here.params) == (head.outs, head.tables, head.params)
    assert here.tables != pinned.tables


def test_pictures_that_came_and_went_are_shown_from_disk_and_cache(project: Path) -> None:
    before, after = resolve_version("HEAD~1", project), resolve_version(".", project)
    found = diff_versions(before, after, project)
    (shown,) = diff_images(before, after, found, project).values()
    assert shown == {
        "came": [("A yellow <b>thing</b>.", picture("yellow")), ("A pink <b>thing</b>.", picture("pink"))],
        "went": [("A blue <b>thing</b>.", picture("blue")), ("A green <b>thing</b>.", picture("green"))],
    }


def test_the_page_has_them_and_says_captions_as_text(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert caramel(["diff", "v1", "--page", "changes.html"]) == 0
    assert "scenes.seed: 1 -> 2" in capsys.readouterr().out
    page = Path("changes.html").read_text()
    assert page.count("<img") == 4
    assert "A pink &lt;b&gt;thing&lt;/b&gt;." in page
    assert "<b>thing" not in page
    assert "data/scenes/images.parquet" in page


def test_a_shard_that_is_gone_or_damaged_is_named(project: Path) -> None:
    before = resolve_version("HEAD~1", project)
    pictures = VersionImages(before, "data/scenes/images.parquet", project)
    cache = project / ".dvc" / "cache" / "files" / "md5"
    shard = next(
        path for path in cache.rglob("*") if path.is_file() and picture("green") in path.read_bytes()
    )
    shard.write_bytes(shard.read_bytes().replace(b"IDAT", b"IDAX"))
    with pytest.raises(
        DataError, match=r"'data/scenes/images/00000.parquet' of version 'HEAD~1' is neither on disk nor"
    ):
        pictures["c"]
    shutil.rmtree(cache)
    with pytest.raises(
        DataError, match=r"'data/scenes.*' of version 'HEAD~1' is neither on disk nor in DVC's cache"
    ):
        resolve_version("HEAD~1", project)


@pytest.mark.parametrize("name", ["v9", "HEAD~99", "--help", "", "a b", "origin/none"])
def test_a_name_of_nothing_is_an_error_that_lists_the_pins(project: Path, name: str) -> None:
    with pytest.raises(
        DataError, match=r"is neither a pin nor a git revision. Pins: v1; '.' is the data on disk"
    ):
        resolve_version(name, project)


def test_a_page_is_not_written_over_data(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert caramel(["diff", "v1", "--page", "pins/v1.json"]) == 1
    assert "pins" in capsys.readouterr().err
    assert resolve_version("v1", project).name == "v1"
