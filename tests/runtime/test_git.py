"""git reads a stranger's repository, and runs nothing that its settings name; where git fails, that is said."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from remote_projects import QUIET, run

from caramel.errors import ResourceError
from caramel.release.diff import _diff_code
from caramel.runtime.git import PROTOCOLS, list_changed_files, query_git, read_git_file, run_git
from caramel.runtime.mlflow.tracking import get_git_commit


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of two commits whose file was touched since, so that git has to read it."""
    root = tmp_path / "repository"
    root.mkdir()
    run("git", "init", "-q", root=root)
    (root / ".gitattributes").write_text("* filter=plant diff=plant filter=a=b\nsrc filter=plant\n")
    for text in ("one", "two"):
        (root / "dvc.lock").write_text("{}")
        (root / "src").write_text(text)
        run("git", "add", "-A", root=root)
        run("git", "commit", "-qm", text, root=root)
    os.utime(root / "src", (1, 1))
    return root


def planted(marker: Path) -> dict[str, list[tuple[str, str]]]:
    """Return settings that would each make git run a program that writes the marker."""
    program = f"touch {marker}; cat"
    promisor = [
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.promisor", "true"),
    ]
    keys = (
        "core.fsmonitor", "core.pager", "core.editor", "core.askPass", "core.sshCommand", "core.gitProxy", "diff.external",
        "diff.plant.command", "diff.plant.textconv", "credential.helper", "gpg.program", "core.alternateRefsCommand",
        "uploadpack.packObjectsHook", "pager.status", "pager.diff", "alias.status", "interactive.diffFilter",
    )  # fmt: skip
    plants = {key: [(key, program)] for key in keys}
    plants["gpg.program"] += [("log.showSignature", "true")]
    plants["alias.status"] = [("alias.status", f"!{program}"), ("alias.cat-file", f"!{program}")]
    plants["filter"] = [("filter.plant.clean", program), ("filter.plant.required", "true")]
    plants["filter process"] = [("filter.plant.process", program)]
    plants["filter a=b"] = [("filter.a=b.clean", program)]
    plants["ext"] = [
        *promisor,
        ("remote.evil.url", f"ext::sh -c 'touch {marker}'"),
        ("protocol.ext.allow", "always"),
    ]
    plants["uploadpack"] = [
        *promisor,
        ("remote.evil.url", "/"),
        ("remote.evil.uploadpack", f"touch {marker};"),
    ]
    plants["vcs"] = [*promisor, ("remote.evil.vcs", "ext"), ("remote.evil.url", f"sh -c 'touch {marker}'")]
    plants["ssh"] = [
        *promisor, ("remote.evil.url", "ssh://127.0.0.1/x"), ("core.sshCommand", program), ("protocol.ssh.allow", "always"),
    ]  # fmt: skip
    return plants


@pytest.mark.parametrize("plant", [*planted(Path())])
@pytest.mark.parametrize("level", ["local", "include"])
def test_no_setting_of_a_repository_makes_git_run_a_program(
    plant: str, level: str, repository: Path, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    old, new = (run("git", "rev-parse", name, root=repository).stdout.strip() for name in ("HEAD~1", "HEAD"))
    lost = run("git", "rev-parse", "HEAD:dvc.lock", root=repository).stdout.strip()
    settings = ["--file", str(repository / ".git" / "more")] if level == "include" else []
    for key, value in planted(marker)[plant]:
        subprocess.run(["git", "config", *settings, key, value], cwd=repository, check=True)
    if settings:
        run("git", "config", "include.path", "more", root=repository)
    if any("promisor" in key for key, _ in planted(marker)[plant]):
        (repository / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
        with pytest.raises(ResourceError, match="fetches it: run that if you trust the repository"):
            read_git_file("HEAD", "dvc.lock", repository)
    else:
        assert read_git_file("HEAD", "dvc.lock", repository) == b"{}"
    assert get_git_commit(repository) in (new, f"{new}-dirty")
    assert _diff_code(old, new, repository) == ["src"]
    run_git("clone", "-q", "--bare", str(repository), "to", folder=tmp_path, protocols=PROTOCOLS)
    assert not marker.exists()


def test_no_hook_of_a_repository_runs(repository: Path, tmp_path: Path) -> None:
    for name in (
        "post-index-change",
        "fsmonitor-watchman",
        "query-watchman",
        "reference-transaction",
        "post-checkout",
    ):
        hook = repository / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o755)
    run("git", "config", "core.hooksPath", str(repository / ".git" / "hooks"), root=repository)
    get_git_commit(repository)
    list_changed_files(repository)
    assert not (tmp_path / "ran").exists()


def test_the_settings_would_run_programs_in_plain_git(repository: Path, tmp_path: Path) -> None:
    """Without this, the tests above could not fail."""
    marker = tmp_path / "ran"
    ran = []
    for plant, command in (
        ("core.fsmonitor", "status"),
        ("filter", "status"),
        ("diff.external", "diff HEAD~1 HEAD"),
    ):
        for key, value in planted(marker)[plant]:
            run("git", "config", key, value, root=repository)
        os.utime(repository / "src", (1, len(ran) + 2))
        run("git", *command.split(), root=repository, check=False)
        ran += [plant] * marker.exists()
        marker.unlink(missing_ok=True)
        for key, _ in planted(marker)[plant]:
            run("git", "config", "--unset", key, root=repository)
    assert ran == ["core.fsmonitor", "filter", "diff.external"]


def test_a_bare_repository_that_lies_among_files_is_not_read(repository: Path, tmp_path: Path) -> None:
    bare = tmp_path / "files" / "data"
    run("git", "clone", "-q", "--bare", str(repository), str(bare), root=tmp_path)
    run("git", "config", "core.worktree", ".", root=bare)
    run("git", "config", "core.bare", "false", root=bare)
    run("git", "config", "core.fsmonitor", f"touch {tmp_path}/ran", root=bare)
    with pytest.raises(ResourceError, match=r"safe.bareRepository"):
        get_git_commit(bare)
    assert not (tmp_path / "ran").exists()


def test_no_repository_and_no_commit_are_unknown_and_no_failure(tmp_path: Path) -> None:
    assert get_git_commit(tmp_path) == "unknown"
    run("git", "init", "-q", root=tmp_path)
    assert get_git_commit(tmp_path) == "unknown"
    assert read_git_file("HEAD", "dvc.lock", tmp_path) is None
    assert read_git_file("0" * 40, "dvc.lock", tmp_path) is None


def test_a_repository_of_another_owner_is_an_error_with_its_cure(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in QUIET.items():  # a machine may trust all folders
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    for read in (get_git_commit, lambda root: read_git_file("HEAD", "dvc.lock", root), list_changed_files):
        with pytest.raises(ResourceError, match=r"`git config --global --add safe.directory /\S+repository`"):
            read(repository)


def test_a_repository_that_git_cannot_read_is_an_error(repository: Path) -> None:
    (repository / ".git" / "config").write_text("[core\n")
    with pytest.raises(ResourceError, match=r"git cannot read .*bad config"):
        get_git_commit(repository)


def test_without_git_it_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    with pytest.raises(ResourceError, match="git is not installed"):
        query_git("rev-parse", "HEAD", folder=repository)


def test_a_hook_that_calls_caramel_does_not_point_git_elsewhere(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    (tmp_path / "other").mkdir()
    assert get_git_commit(tmp_path / "other") == "unknown"


def test_what_the_user_does_not_permit_is_not_fetched_by(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "https:ext")
    for url in (f"file://{repository}", f"ext::sh -c 'touch {tmp_path}/ran'"):
        done = run_git("clone", "--", url, "to", folder=tmp_path, protocols=PROTOCOLS)
        assert b"not allowed" in done.stderr
    assert not (tmp_path / "ran").exists()
