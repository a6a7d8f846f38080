"""Where a study runs the graph: a copy of the project under ``work/study`` with a DVC cache of its own.

Each cell is ``caramel config use`` with the cell's seeds, then ``dvc repro evaluate``. DVC's run cache knows the outputs
of every stage that ended here, so that a stage that cells share is run once, and a study that was killed, or that is
asked for more cells, takes all that was finished from it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Never

from filelock import FileLock, Timeout
from tqdm import tqdm

from caramel.config.profiles import write_profile
from caramel.errors import ConfigError, ResourceError
from caramel.io.files import write_atomically, write_text
from caramel.io.output_paths import check_folder, remove_results
from caramel.io.regular_files import read_plain, require_plain
from caramel.io.safe_yaml import read_yaml
from caramel.runtime.dvc.state import refuse_beside
from caramel.runtime.paths import WORK

FOLDER = WORK / "study"
LAST = "evaluate"  # the last stage that a study needs
LOG = "study.log"
BEGAN = "began.txt"  # when the first cell was run there
POLL = 0.2  # seconds between looks at what DVC says
LOG_TAIL = 25  # lines of it that are shown when a cell fails
_COPIED = ("pipelines", "expectations", "params", "plans")
_CODE = ("src", "code")  # caramel's own sources, or what a project of one's own lists of the installed ones
_FILES = ("dvc.yaml", ".dvcignore", ".dvc/config")
_STAGE = re.compile(r"(?:Running stage|Stage) '(\w+)'(:| is cached| didn't change)")


def list_stages(root: Path) -> list[str]:
    """Return the stages of the graph up to the last one that a study needs."""
    names = [str(name) for name in read_yaml(root / "dvc.yaml", "")["stages"]]
    return names[: names.index(LAST) + 1]


@contextmanager
def hold_study_lock(folder: Path) -> Iterator[None]:
    """Hold the study's lock.

    Raises:
        ResourceError: another study, or DVC, is at work there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.parent / f"{folder.name}.lock", timeout=0):
            refuse_beside(folder)  # of a study that was killed
            yield
    except Timeout:
        raise ResourceError(f"A study is running already in {folder}. Wait for it, or end it.") from None


def read_begin(folder: Path) -> datetime:
    """Return when a study began in the folder (UTC), which is now for a new one.

    Cells that were run in the folder by an earlier study are taken up, so the time is that of the first of them.

    Raises:
        ConfigError: the file that holds it is broken.
    """
    path = folder / BEGAN
    if not path.exists():
        write_text(path, f"{datetime.now(UTC).isoformat(timespec='seconds')}\n")
    text = read_plain(path).decode(errors="replace").strip()
    try:
        began = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"{path} must hold a time as in 2026-11-22T14:30:00+00:00, not {text!r:.80}. Remove {folder}."
        ) from error
    return began if began.tzinfo else began.replace(tzinfo=UTC)


def prepare_folder(root: Path, folder: Path) -> None:
    """Bring what the stages need into the study's folder: the sources as they are now, and DVC's settings.

    Raises:
        ConfigError: ``root`` is no project, what would be written is a link, or something else than a link stands
            where that to its inputs belongs.
    """
    for name in (*_COPIED, *_FILES):
        if not (root / name).exists():
            raise ConfigError(f"{root.resolve()} has no {name}. Run `caramel study` in the project's folder.")
    for name in (*_COPIED, *(name for name in _CODE if (root / name).exists())):
        remove_results(folder / name)
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    check_folder(folder / ".dvc")
    (folder / ".dvc").mkdir(exist_ok=True)
    for name in _FILES:
        write_atomically(folder / name, partial(shutil.copy2, root / name))
    # The study's folder lies in a repository that ignores it.
    write_text(folder / ".dvc" / "config.local", "[core]\n    no_scm = true\n")
    _link_inputs(root / "inputs", folder / "inputs")


def _link_inputs(inputs: Path, link: Path) -> None:
    """Have a link lead to the project's inputs, in place of one of a project that was moved since.

    Raises:
        ConfigError: there is something else than a link, which stays.
    """
    if link.is_symlink():
        link.unlink()
    elif link.exists():
        what = "a folder" if link.is_dir() else "a file"
        raise ConfigError(
            f"{str(link)!r} is {what}, where `caramel study` puts a link to {str(inputs)!r}. Move it away."
        )
    link.symlink_to(os.path.realpath(inputs))


def run_graph(folder: Path, profile: str, sets: Mapping[str, str], *, bar: tqdm[Never]) -> None:
    """Run the graph for a profile and further values, or take it from what was run before.

    Raises:
        ResourceError: a stage failed; the message ends with what it said.
    """
    write_profile(profile, sets, folder)
    log, total = folder / LOG, bar.n + len(list_stages(folder))
    require_plain(log)
    with log.open("wb") as log_writer, log.open(encoding="utf-8", errors="replace") as log_reader:
        process = subprocess.Popen(
            [sys.executable, "-m", "dvc", "repro", LAST],
            cwd=folder,
            env=_build_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log_writer,
            stderr=subprocess.STDOUT,
        )
        try:
            while process.poll() is None:
                _update_bar(log_reader.read(), bar)
                time.sleep(POLL)
        except BaseException:
            _stop_process(process)
            raise
        _update_bar(log_reader.read(), bar)
    if process.returncode:
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL:]
        raise ResourceError(
            "A stage of the study failed:\n"
            + "\n".join(f"  {line}" for line in last)
            + f"\nAll that was said is in {log}. What was finished is kept: mend the cause, and run `caramel study` again."
        )
    bar.update(total - bar.n)


def _stop_process(process: subprocess.Popen[bytes]) -> None:
    """End DVC and the stage that it runs, which alone would go on and write beside the next study."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        stage = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        for child in stage:
            with suppress(psutil.NoSuchProcess):
                child.terminate()
    process.wait()


def _update_bar(text: str, bar: tqdm[Never]) -> None:
    """Move the bar for each stage that DVC names."""
    for name, what in _STAGE.findall(text):
        bar.set_postfix_str(f"{name}{'' if what == ':' else ' (kept)'}")
        bar.update()


def _build_environment(folder: Path) -> dict[str, str]:
    """Return the environment in which `python` is the one that runs this, and its sources are the study's copy.

    So an edit of the project while a study runs does not change what runs.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    sources = os.pathsep.join(filter(None, [os.path.realpath(folder / "src"), os.environ.get("PYTHONPATH")]))
    inherited = {name: value for name, value in os.environ.items() if name != "DVC_ROOT"}
    return inherited | {"PATH": path, "PYTHONPATH": sources}
