"""Repositories whose owner wants code to run on the machine of who gets a version from them, or looks at one."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from remote_projects import QUIET, run

from caramel.release import pin_file
from caramel.release.pin import compute_table_version
from caramel.runtime.dvc.state import compute_listing_hash


def store_settings(store: bytes) -> bytes:
    """Return the settings of a project of DVC whose remote is a folder."""
    return b"[core]\nremote = store\n['remote \"store\"']\nurl = " + store + b"\n"


class Hostile:
    """A git repository with a pin v1 of any paths; its objects lie in a remote, a folder of this machine.

    Args:
        root: of the repository, a new folder.
        outs: path of an output -> its bytes, or name -> bytes of the files that its list names.
        project: folder of the project in the repository.
        settings: gives the text of ``.dvc/config`` for the folder of the objects.
    """

    def __init__(
        self,
        root: Path,
        outs: Mapping[str, bytes | Mapping[str, bytes]],
        project: str = ".",
        settings: Callable[[bytes], bytes] = store_settings,
    ) -> None:
        self.root, self.url = root, f"file://{root}"
        self._store = root.with_name(f"{root.name}-store") / "files" / "md5"
        folder = root / project
        (folder / ".dvc").mkdir(parents=True)
        (folder / ".dvc" / "config").write_bytes(settings(os.fsencode(self._store.parent.parent)))
        tables: dict[str, pin_file.TableVersion] = {}
        digests = {out: self._put(out, content, tables) for out, content in outs.items()}
        fields = {
            "name": "v1", "created": "2026-01-01", "commit": "0" * 40, "params": {}, "outs": digests, "tables": tables,
            "data": pin_file.compute_data_hash(digests, tables),
        }  # fmt: skip
        pin_file.write_pin(pin_file.Pin.model_construct(**fields), folder / "pins" / "v1.json")
        if not (root / ".git").exists():
            run("git", "init", "-q", root=root)
        run("git", "add", "-A", root=root)
        run("git", "commit", "-qm", "data", root=root)

    def _put(
        self, out: str, content: bytes | Mapping[str, bytes], tables: dict[str, pin_file.TableVersion]
    ) -> str:
        if isinstance(content, bytes):
            return self._object(content, out, tables)
        files = {name: self._object(data, f"{out}/{name}", tables) for name, data in content.items()}
        rows = [{"md5": digest, "relpath": name} for name, digest in sorted(files.items())]
        self._object(json.dumps(rows, sort_keys=True).encode(), "", tables, ".dir")
        return compute_listing_hash(files)

    def _object(
        self, data: bytes, path: str, tables: dict[str, pin_file.TableVersion], suffix: str = ""
    ) -> str:
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest() + suffix
        place = self._store / digest[:2] / digest[2:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        folder = str(Path(path).parent)
        if path.endswith(".parquet") and not folder.endswith("images"):
            tables[path] = compute_table_version(place)
        return digest


def git_settings(marker: Path) -> bytes:
    """Return the ``.git/config`` of a repository that runs a program whenever git looks at it."""
    return (
        f"[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tfsmonitor = touch {marker}\n\tpager = touch {marker}\n"
        f'\thooksPath = .\n[extensions]\n\tpartialClone = evil\n[remote "evil"]\n\tpromisor = true\n'
        f'\turl = "ext::sh -c \'touch {marker}\'"\n[protocol "ext"]\n\tallow = always\n'
        f'[filter "evil"]\n\tclean = touch {marker}\n[diff]\n\texternal = touch {marker}\n'
    ).encode()


def caramel(*arguments: str, root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, with the sources that are tested."""
    command = [sys.executable, "-c", "import caramel.cli as c; c.main()", *arguments]
    env = {**os.environ, **QUIET, **environment}
    return subprocess.run(
        command, cwd=root, env=env, capture_output=True, text=True, check=False, timeout=300
    )
