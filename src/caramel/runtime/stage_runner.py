"""Run a stage script: quiet, locked, timed, and with clear errors.

A stage script is ``run(main)``. It parses ``params.yaml``, holds the stage's file lock and calls
``main(config)``. If the user can fix an error, it prints one clear message instead of a traceback. Wall time
and peak memory of each run are appended to ``work/timings.jsonl``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from filelock import FileLock, Timeout

from caramel.config.schema import Config, load_config
from caramel.config.validate import check_names, list_named_plugins
from caramel.errors import CaramelError, ResourceError, format_error
from caramel.io.disk_space import explain_disk_error, require_writable
from caramel.io.files import remove_temporaries, write_text
from caramel.io.regular_files import append_plain, require_plain
from caramel.plugins import PLUGINS_VARIABLE, format_plugins
from caramel.runtime import code_manifest
from caramel.runtime.environment import be_quiet, collect_seldom, end_process
from caramel.runtime.fork_client import FORK_SERVER, FORKING
from caramel.runtime.mlflow.server import NAME, require_server
from caramel.runtime.mlflow.store import get_store_root
from caramel.runtime.paths import LOCKS, TIMINGS, WORK
from caramel.runtime.progress import format_start
from caramel.runtime.ray.cluster import get_cluster_address, require_cluster, share_session
from caramel.runtime.ray.temp_dirs import get_temporary_root
from caramel.runtime.timings import Timing
from caramel.schemas.contracts import Table
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table

if TYPE_CHECKING:
    import psutil

SCENE_IMAGES = "data/scenes/images.parquet"
LOCK_WAIT = 10.0  # seconds
SAMPLE = 0.5  # seconds between samples of the memory in use
Outputs = Mapping[str, Table | None]


def has_images() -> bool:
    """Return whether the source of this profile has images."""
    return len(read_table(IMAGES, SCENE_IMAGES, ["image_id"])) > 0


def skip_stage(outputs: Outputs, reason: str) -> None:
    """Write all outputs of a stage that does not apply: empty tables, and the reason."""
    for name, table in outputs.items():
        path = Path(name)
        if table is not None:
            write_table(table, build_frame(table, []), path)
        elif path.suffix == ".json":
            _write_text(path, json.dumps({"skipped": reason}) + "\n")
        elif path.suffix == ".csv":
            _write_text(path, f'skipped\n"{reason}"\n')
        else:
            _write_text(path / "SKIPPED.txt", reason + "\n")


def _write_text(path: Path, text: str) -> None:
    write_text(path, text)


def run_stage(
    main: Callable[[Config], None], *, images_needed: Outputs | None = None, trains: bool = False
) -> None:
    """Run a stage. A stage script's ``__main__`` is only this call.

    Args:
        main: the stage; its name is the stage's name.
        images_needed: the outputs of a stage that needs images; in a profile without images
            they are written empty, with the reason.
        trains: whether the stage also needs models to train; then it is skipped with ``assemble.training: none``.

    Exits with code 1 and one message on any error that the user can fix. If the stage's script is what Python was
    started with, the process ends here.
    """
    be_quiet()
    collect_seldom()
    name = main.__name__
    try:
        code_manifest.require_listed(
            name, Path()
        )  # first, because after an upgrade the params may lack new keys
        config = load_config()
        check_names(config)
        plugins = list_named_plugins(config)
        code_manifest.require_plugins_listed(name, plugins, Path())
        if plugins:
            os.environ[PLUGINS_VARIABLE] = format_plugins(plugins)  # the tracked runs of the stage name them
        require_writable(list_output_folders(config))
        require_server()
        if config.run.executor == "ray":
            require_cluster()  # for every stage: otherwise a later one would fail after hours
    except CaramelError as error:
        _stop_with_error(error)
    if line := format_start(name, config.profile):
        print(line, flush=True)
    try:
        lock = LOCKS / f"{name}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=LOCK_WAIT), _record_timing(name, config.profile), share_session():
            _remove_leftovers(name)
            lacking = ""
            if images_needed is not None and not has_images():
                lacking = f"the source of profile {config.profile!r} has no images"
            elif trains and config.assemble.training == "none":
                lacking = f"profile {config.profile!r} trains no model (assemble.training: none)"
            if images_needed is not None and lacking:
                reason = f"stage {name!r} skipped: {lacking}"
                print(reason)
                skip_stage(images_needed, reason)
            else:
                main(config)
    except Timeout:
        _stop_with_error(
            ResourceError(
                f"Stage {name!r} is already running (it holds {lock}). A killed `dvc repro` may have "
                f"left it behind: wait for it, or end that process."
            )
        )
    except ResourceError as error:
        _stop_with_error(ResourceError(f"Stage {name!r}: {error}"))
    except CaramelError as error:
        _stop_with_error(error)
    except Exception as error:
        message = explain_disk_error(error, list_output_folders(config))
        if message is None:
            raise
        _stop_with_error(
            ResourceError(
                f"Stage {name!r}: {message} Finished shards and checkpoints are kept in work/; run `dvc repro` "
                f"to go on."
            )
        )
    if Path(main.__code__.co_filename).resolve() in {Path(word).resolve() for word in sys.orig_argv[1:]}:
        end_process()


def _remove_leftovers(name: str) -> None:
    """Remove what an earlier run of the stage, killed while writing, left beside its outputs.

    DVC empties only folders.
    """
    graph = code_manifest.load_stages(Path()) if Path("dvc.yaml").exists() else {}
    for out in code_manifest.iter_outputs(graph.get(name, {})):
        remove_temporaries(Path(out))


def list_output_folders(config: Config) -> list[Path]:
    """Return the folders that a stage writes to. Each may be on a separate volume."""
    folders = [Path("data"), WORK]
    if not os.environ.get(NAME):
        folders.append(get_store_root() / "mlruns")
    if config.run.executor == "ray" and not get_cluster_address():
        # Ray's folder for logs and for objects that do not fit into memory.
        folders.append(get_temporary_root())
    return folders


def _stop_with_error(error: CaramelError) -> NoReturn:
    print(format_error(error), file=sys.stderr)
    sys.exit(1)


@contextmanager
def _record_timing(name: str, profile: str) -> Iterator[None]:
    """Append the stage's wall time and peak memory to ``work/timings.jsonl`` if the block succeeds.

    The time counts from the start of the process, including imports. The memory is the resident
    memory of the stage's processes at one moment (``_list_members``). Shared pages count once for each of them.

    Raises:
        ConfigError: the file is a link, or not a plain file; raised before any work.
    """
    import psutil

    require_plain(TIMINGS)
    process, peak, done, started = psutil.Process(), 0, threading.Event(), time.monotonic()

    def sample_memory() -> None:
        nonlocal peak
        while not done.wait(SAMPLE):
            used = 0
            for member in _list_members(process):
                with suppress(psutil.NoSuchProcess):
                    used += member.memory_info().rss
            peak = max(peak, used)

    watcher = threading.Thread(target=sample_memory, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    peak = max(peak, process.memory_info().rss)
    # The clock may have been set back since the process started. The time is at least that of the block.
    seconds = round(max(time.time() - process.create_time(), time.monotonic() - started), 1)
    row = Timing(
        stage=name, profile=profile, seconds=seconds, peak_mb=peak >> 20, began=process.create_time()
    )
    append_plain(TIMINGS, row.model_dump_json() + "\n")


def _list_members(process: psutil.Process) -> list[psutil.Process]:
    """Return a stage's process and its descendants, such as Ray's workers.

    Where stages are forks, their workers are too, and none is a child of another: all processes of the run are
    returned. Beside the stage, that is DVC.
    """
    import psutil

    with suppress(psutil.NoSuchProcess):
        parent = process.parent() if FORKING in os.environ else None
        if parent and FORK_SERVER in parent.cmdline():
            return [*parent.children(recursive=True)]
    return [process, *process.children(recursive=True)]
