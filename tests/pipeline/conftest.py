"""The whole DVC graph on the smoke profile, once, in a copy of the repository."""

import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from project import Project

DONE = "work/run_is_done"
LIMIT = 1800  # seconds of a test, with the runs of the graph before it: minutes, but not on a busy machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder more time than all others have."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT))


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Project:
    """The project after ``caramel config use smoke`` and `make repro`'s run: one for all processes of pytest."""
    own = tmp_path_factory.getbasetemp()
    shared = (own if worker_id == "master" else own.parent) / "smoke"
    with FileLock(f"{shared}.lock"):
        if (shared / DONE).exists():
            return Project(shared)
        shutil.rmtree(shared, ignore_errors=True)  # of a run that failed for another process
        shared.mkdir()
        project = Project.create(shared)
        project.run("caramel", "config", "use", "smoke")
        project.run("python", "-m", "caramel.runtime.fork_server", "dvc", "repro")
        (shared / DONE).touch()
        return project
