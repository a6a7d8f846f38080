"""A requirement says where caramel was installed from, and where nobody else can install it from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from caramel.cli.output import echo
from caramel.runtime import installation

GIT = {"vcs": "git", "commit_id": "abc"}


@pytest.mark.parametrize(
    ("origin", "line", "here"),
    [
        (None, "caramel==1.2", False),
        (
            {"url": "https://me:secret@h/c.git", "vcs_info": GIT},
            "caramel @ git+https://h/c.git@abc",
            False,
        ),
        (
            {"url": "https://h/all.git", "vcs_info": GIT, "subdirectory": "caramel"},
            "caramel @ git+https://h/all.git@abc#subdirectory=caramel",
            False,
        ),
        ({"url": "file:///a/c.git", "vcs_info": GIT}, "caramel @ git+file:///a/c.git@abc", True),
        (
            {"url": "file:///a/caramel-1.2.whl", "archive_info": {}},
            "caramel @ file:///a/caramel-1.2.whl",
            True,
        ),
        ({"url": "file:///a", "dir_info": {"editable": True}}, "caramel @ file:///a", True),
    ],
)
def test_requirements_name_where_caramel_was_installed_from(
    origin: dict[str, Any] | None, line: str, here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        version = "1.2"

        def read_text(self, name: str) -> str | None:
            return json.dumps(origin) if origin else None

    monkeypatch.setattr(installation.metadata, "distribution", lambda name: Installed())
    assert installation.get_requirement() == line
    assert installation.format_local_warning().startswith(repr(line) if here else "")
    assert bool(installation.format_local_warning()) == here


def test_the_example_of_a_public_source_is_shown_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installation, "get_requirement", lambda: "caramel @ file:///a")
    echo(installation.format_local_warning())
    assert "as in 'caramel @ git+https://HOST/REPOSITORY@COMMIT'." in capsys.readouterr().out
