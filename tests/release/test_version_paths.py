"""Whatever a stranger calls a file: what passes lies below ``data/``, and no program reads it because of its name."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from caramel.release.version_paths import list_bad_files

PARTS = [
    "data", "Data", "a", "x.json", "x.JSON", "images", "n:1", "\u00e9.csv", "e\u0301.csv", ".git", ".GIT", ".g\u200cit", "\u200c.git",
    "GIT~1", "git~2.json", "..", ".", "", "...", "config", "HEAD", "hooks", "con.json", "nul", "a.json.", "a.json ", " a.json",
    "sitecustomize.py", "x.pkl", "x.exe.json", ".envrc", ".json", "a\\..\\b.json", "C:", "C:\\x.json", "\0", "a\n.json", "\x1b[2K.json",
    "\u202egnp.json", "-rf.json", "~", "~root", "$HOME", "*", "x" * 250, "\ud800.json",
]  # fmt: skip


@settings(max_examples=2000, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5), st.booleans())
@example(["data", "a", "x.json"], False)
@example(["data", " a.json"], False)
def test_what_is_let_through_is_a_file_of_data_in_its_folder(parts: list[str], absolute: bool) -> None:
    path = "/" * absolute + "/".join(parts)
    if list_bad_files([path]):
        return
    names = path.split("/")
    assert names[0] == "data"
    assert len(names) > 1
    assert os.path.normpath(path) == path
    assert Path("/out", path).resolve().is_relative_to("/out/data")
    assert path.isprintable()
    for name in names:
        assert name.strip(" .") == name
        assert not name.casefold().startswith((".", "git~", "con.", "nul"))
        assert not set(name) & {"\\", "\0", "\u200c", "\u202e"}
    assert names[-1].casefold().endswith((".json", ".csv"))


def test_paths_as_versions_have_them_are_let_through() -> None:
    paths = [
        "data/a.json",
        "data/scenes/images/00000.parquet",
        "data/finetune/n:1/bpe.txt.gz",
        "data/-rf.json",
        "data/a b/c.csv",
    ]
    assert list_bad_files(paths) == []
