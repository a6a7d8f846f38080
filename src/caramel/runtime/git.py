"""Run git safely: no program that a repository's own settings name is run.

A repository may come from a stranger: from an archive, or on a shared disk. Its ``.git/config`` can name
programs that git runs even for reading (``core.fsmonitor``, hooks, clean filters), and remotes that git asks
for missing objects (``ext::COMMAND``, ``uploadpack``). All of them are switched off here. The settings of the
user and of the machine are
kept: they hold ``safe.directory``, and the login for a repository that the user names.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from caramel.errors import ResourceError, redact_secrets

# Allowed protocols for fetching; ``ext`` would run a command.
PROTOCOLS = ("file", "git", "http", "https", "ssh")
# Settings that override those of the repository.
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.alternateRefsCommand": "",
    "safe.bareRepository": "explicit",  # a bare repository may hide in any folder of a stranger's files
    "submodule.recurse": "false",
}
# Variables by which a caller, such as a hook, redirects git to another repository than the folder's.
_POINTERS = {
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
}  # fmt: skip
_NO_REPOSITORY = "not a git repository"
_OTHER_OWNER = re.compile(r"dubious ownership|unsafe repository")
_TRUST = re.compile(r"git config --global --add safe\.directory \S.*")


def query_git(*arguments: str, folder: Path) -> bytes | None:
    """Return git's output on a folder's repository; None without a repository, or if nothing has that name.

    Nothing is fetched from elsewhere, whatever the repository's remotes are.

    Args:
        arguments: a command that exits with 1 if nothing has that name (``rev-parse --verify --quiet``).
        folder: where the command runs.

    Raises:
        ResourceError: git is not installed, does not trust the repository, or fails.
    """
    done = run_git(*arguments, folder=folder)
    message = done.stderr.decode(errors="replace")
    if done.returncode == 0:
        return done.stdout
    if done.returncode == 1 or _NO_REPOSITORY in message:
        return None
    raise ResourceError(
        f"git cannot read the repository of {str(folder.absolute())!r}: {_shorten_message(message)}. Run `git fsck` there."
    )


def read_git_file(revision: str, path: str, folder: Path) -> bytes | None:
    """Return a file of a revision; None if the repository, revision or file does not exist.

    Args:
        revision: revision in the repository of the folder.
        path: path of the file, relative to the folder.
        folder: any folder of the working tree.

    Raises:
        ResourceError: as in ``query_git``; or the file is missing in this clone, which is partial.
    """
    name = f"{revision}:./{path}"
    blob = query_git("rev-parse", "--verify", "--quiet", "--end-of-options", name, folder=folder)
    if blob is None:
        return None
    done = run_git("cat-file", "blob", blob.decode().strip(), folder=folder)
    if done.returncode:
        raise ResourceError(
            f"git has no content of {name!r} in {str(folder.absolute())!r}: {_shorten_message(done.stderr.decode(errors='replace'))}. "
            f"In a partial clone, `git show {name}` fetches it: run that if you trust the repository."
        )
    return done.stdout


def list_changed_files(folder: Path, *pathspecs: str) -> list[str]:
    """Return the lines of ``git status`` on tracked files that differ from the commit.

    Clean filters that the repository's own settings define are not run. A file that such a filter rewrites
    counts as changed if git has to read it. For a submodule only another commit counts.

    Raises:
        ResourceError: as in ``query_git``.
    """
    command = ("status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty", "--")
    done = run_git(*command, *pathspecs, folder=folder, settings=_build_filter_overrides(folder))
    if done.returncode:
        message = _shorten_message(done.stderr.decode(errors="replace"))
        raise ResourceError(f"`git status` fails in {str(folder.absolute())!r}: {message}.")
    return [line for line in done.stdout.decode(errors="replace").split("\0") if line]


def run_git(
    *arguments: str, folder: Path, protocols: Sequence[str] = (), settings: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder and return the completed process, with output in English.

    Args:
        arguments: the command.
        folder: working folder.
        protocols: protocols by which it may fetch; none: it fetches nothing.
        settings: further settings that override those of the repository.

    Raises:
        ResourceError: git is not installed, or does not trust the repository because another user owns it.
    """
    try:
        done = subprocess.run(
            ["git", "--no-pager", *arguments],
            cwd=folder,
            env=_build_environment(protocols, _SETTINGS | (settings or {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise
        raise ResourceError("git is not installed. Install it: versions of code are read with it.") from error
    message = done.stderr.decode(errors="replace")
    if done.returncode and _OTHER_OWNER.search(message):
        cure = _TRUST.search(message)
        command = cure[0] if cure else f"git config --global --add safe.directory {folder.absolute()}"
        raise ResourceError(
            f"git does not read a repository that another user owns ({str(folder.absolute())!r}). If you trust it, run "
            f"`{command}`, and then this again."
        )
    return done


def _build_environment(protocols: Sequence[str], settings: dict[str, str]) -> dict[str, str]:
    """Return this process's environment with variables that switch off the programs of a repository."""
    variables = {name: value for name, value in os.environ.items() if name not in _POINTERS}
    permitted = os.environ.get("GIT_ALLOW_PROTOCOL")  # the user may permit fewer
    allowed = [name for name in protocols if permitted is None or name in permitted.split(":")]
    count = int(variables.get("GIT_CONFIG_COUNT") or 0)
    for number, (key, value) in enumerate(settings.items(), count):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables | {
        "GIT_CONFIG_COUNT": str(count + len(settings)),
        "GIT_ALLOW_PROTOCOL": ":".join(allowed),
        "GIT_NO_LAZY_FETCH": "0" if protocols else "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def _build_filter_overrides(folder: Path) -> dict[str, str]:
    """Return settings that switch off the filters defined by a repository's own settings."""
    listed = query_git("config", "--list", "--show-scope", "--name-only", "-z", folder=folder) or b""
    words = listed.decode(errors="surrogateescape").split("\0")
    keys = [
        key for scope, key in zip(words[::2], words[1::2], strict=False) if scope in ("local", "worktree")
    ]
    drivers = {key.rpartition(".")[0] for key in keys if key.startswith("filter.")}
    values = {"clean": "", "smudge": "", "process": "", "required": "false"}
    return {f"{driver}.{name}": value for driver in sorted(drivers) for name, value in values.items()}


def _shorten_message(message: str) -> str:
    return redact_secrets(" ".join(message.split()))[-300:].rstrip(".")
