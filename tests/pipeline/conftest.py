"""The whole DVC graph on the smoke profile, once, in a copy of the repository."""

import pytest
from project import Project


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after ``caramel profile smoke`` and ``dvc repro``."""
    project = Project.create(tmp_path_factory.mktemp("smoke"))
    project.run("caramel", "profile", "smoke")
    project.run("dvc", "repro")
    return project
