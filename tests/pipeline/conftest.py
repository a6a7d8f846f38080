"""The whole DVC graph on the smoke profile, once, in a copy of the repository."""

from pathlib import Path

import pytest
from project import Project

LIMIT = 1800  # seconds of a test, with the runs of the graph before it: minutes, but not on a busy machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder more time than all others have."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT))


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after ``caramel config use smoke`` and ``dvc repro``."""
    project = Project.create(tmp_path_factory.mktemp("smoke"))
    project.run("caramel", "config", "use", "smoke")
    project.run("dvc", "repro")
    return project
