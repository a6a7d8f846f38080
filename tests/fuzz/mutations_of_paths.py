"""Mutations of what a stranger writes into a repository: paths of a version, and settings of git and DVC."""

from __future__ import annotations

import json

from hypothesis import strategies as st
from mutations_of_text import ABSOLUTE, Draw, encoded, mutate_text, place_in, text_of

MARKER = "CARAMEL_FUZZ_MARKER"  # variable of the file that a planted program makes
PROGRAM = f"touch ${MARKER}"
FOLDERS = (
    ".git", ".GIT", ".dvc", ".", "..", "", "GIT~1", "con", "con.json", "pins", "src", "data", "DATA", "hooks", "x ", "x.", "é",
    "e\u0301", "a\\b", "x\u200c", "\u202ex", "x\ny", "a:b", "x" * 300, "~", "$HOME", "%41", "?",
)  # fmt: skip
FILES = (
    "config", "HEAD", "post-index-change", ".envrc", ".gitattributes", "sitecustomize.py", "conftest.py", "x.sh", "x.so", "x.pkl",
    "x.pth.py", "Makefile", "dvc.lock", "dvc.yaml", "v1.json", "X.JSON", "a.json", "A.json", "x.json.", "aux.json", "é.json",
    "e\u0301.json", "x", "x.csv",
)  # fmt: skip
WHOLE = (
    "",
    "data",
    "pins",
    ".git",
    "/data/x.json",
    "/etc/hostname",
    "data//x.json",
    "./data/x.json",
    "data/x.json/",
    ABSOLUTE,
)
# Names of a project's folder that some library takes for more than a name.
ODD_FOLDERS = (
    "a?b", "?", "%41", "100%", "a#b", "a b", "é", "e\u0301", "a\nb", "a&b=c", "a;b", "a'b", 'a"b', "a:b", "a@b", "~", "-x", "$HOME",
    "{0}", "[a]", "a\\b", "*", "日本", "🙂", "x" * 200, "a?mode=ro", "a%2Fb", "data", "\u202ea",
)  # fmt: skip
SETTINGS = (
    f"[core]\n\tfsmonitor = {PROGRAM}", f"[core]\n\tsshCommand = {PROGRAM}", f"[core]\n\teditor = {PROGRAM}", "[core]\n\thooksPath = ..",
    f"[core]\n\talternateRefsCommand = {PROGRAM}", "[core]\n\tworktree = ..", "[core]\n\tbare = true", "[core]\n\trepositoryformatversion = 9",
    f"[diff]\n\texternal = {PROGRAM}", f'[diff "x"]\n\ttextconv = {PROGRAM}', f'[filter "x"]\n\tprocess = {PROGRAM}\n\trequired = true',
    f"[credential]\n\thelper = !{PROGRAM}", f"[uploadpack]\n\tpackObjectsHook = {PROGRAM}", f"[gpg]\n\tprogram = {PROGRAM}",
    "[log]\n\tshowSignature = true", "[status]\n\tsubmoduleSummary = true", f"[alias]\n\tstatus = !{PROGRAM}\n\tclone = !{PROGRAM}",
    "[include]\n\tpath = ../../secret.png", f'[url "ext::sh -c {PROGRAM}"]\n\tinsteadOf = file://', "[extensions]\n\tobjectFormat = sha256",
    f'[remote "evil"]\n\tpromisor = true\n\turl = "ext::sh -c \'{PROGRAM}\'"', '[protocol "ext"]\n\tallow = always', "[cache]\n\tdir = ..",
    f"['remote \"store\"']\n\turl = ext::sh -c {PROGRAM}", "['remote \"store\"']\n\turl = %(x)s", "['remote \"store\"']\n\turl = ssh://-oProxyCommand=x/",
    f"['remote \"store\"']\n\tbearer_token_command = {PROGRAM}", "['remote \"other\"']\n\turl = /etc", "[core]\n\tremote = other", "[core", "=", "[]",
)  # fmt: skip

# Where something may lie in the folder that a version is got into.
PLACES = (
    "",
    "lock",
    "pin.json",
    "files",
    "files/data/pairs.parquet",
    "files/data/model",
    "lists",
    "split",
    "other",
)
SPECIAL = ("fifo", "null", "block", "socket", "link", "dangling", "loop", "folder")
# What a server may call the version of a model.
NUMBERS = (
    "", ".", "..", "1/../../x", "1/../../../data/set", "1/../../../model", "/etc", "１", "²", "9" * 400, "-1", "1.5", "1 ", "1\n", "1\0",
    "1\\2", "%31", "@NUMBER@",
)  # fmt: skip


def hostile_path(draw: Draw, old: str) -> str:
    """Return a path that no version may have, or one that it may."""
    parts = old.split("/")
    kind = draw(st.sampled_from(("folder", "folder", "file", "file", "whole", "suffix")))
    if kind == "whole":
        return str(draw(st.sampled_from(WHOLE)))
    if kind == "folder":
        parts.insert(place_in(draw, len(parts) - 1), draw(st.sampled_from(FOLDERS)))
    elif kind == "file":
        parts[-1] = draw(st.sampled_from(FILES))
    else:
        parts[-1] += draw(st.sampled_from((".py", ".sh", "", "/", " ", ".", "~", ".gz")))
    return "/".join(parts)


def mutate_paths(draw: Draw, data: bytes) -> bytes:
    """Change an output or a name of a version's list of files, or add one: a JSON list of one or two texts a line."""
    rows = [json.loads(line) for line in data.splitlines()]
    row = list(draw(st.sampled_from(rows)))
    at = place_in(draw, len(row) - 1)
    row[at] = hostile_path(draw, row[at])
    if draw(st.booleans()):
        rows.append(row)
    else:
        rows[place_in(draw, len(rows) - 1)] = row
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def mutate_settings(draw: Draw, data: bytes) -> bytes:
    """Add settings that name a program, another folder or a broken value; or change the text."""
    text = text_of(data)
    if text is None or draw(st.integers(0, 3)) == 0:
        return mutate_text(draw, data)
    lines = text.split("\n")
    lines.insert(place_in(draw, len(lines)), draw(st.sampled_from(SETTINGS)))
    return encoded("\n".join(lines))


def mutate_specials(draw: Draw, data: bytes) -> bytes:
    """Add a special file, or several: a line with its path in the folder that is filled, and what it is."""
    lines = ""
    for _ in range(draw(st.sampled_from((1, 1, 2)))):
        lines += f".caramel-get/{draw(st.sampled_from(PLACES))} {draw(st.sampled_from(SPECIAL))}\n"
    return data + lines.encode()


def mutate_number(draw: Draw, _: bytes) -> bytes:
    """Return another number of a version, most of them none."""
    return str(draw(st.sampled_from(NUMBERS))).encode()
