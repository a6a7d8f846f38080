"""A copy of the repository to run the pipeline in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from processes import checked, get_python

from caramel.runtime.code_manifest import iter_outputs, load_stages

ROOT = Path(__file__).parents[2]


class Project:
    """A copy of the repository with its own git and DVC state, as a new user would have it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        bin_folder = str(Path(sys.executable).parent)
        self.environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
        self.environment.pop("DVC_ROOT", None)

    @classmethod
    def create(cls, folder: Path, *, lock: bool = True) -> Project:
        """Copy all files that git tracks or would track, and commit them.

        Without ``dvc.lock`` where that is not what is tried: DVC writes all of it again after each stage, in a second.
        """
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        for name in listed:
            left_out = name.startswith("tests/") or (name == "dvc.lock" and not lock)
            if (ROOT / name).is_file() and not left_out:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        project = cls(folder)
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        project.run("git", "init", "-q")
        project.run("git", "add", "-A")
        project.run("git", *identity, "commit", "-qm", "copy")
        return project

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the project; on failure show what it said."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        return checked(done) if check else done

    def stage(self, name: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one stage's script without DVC."""
        return self.run("python", f"pipelines/{name}.py", check=check)

    def list_outputs(self, *names: str) -> list[Path]:
        """Return what stages write, as DVC knows it."""
        graph = load_stages(self.folder)
        return [self.folder / out for name in names for out in iter_outputs(graph[name])]

    def clone(self, folder: Path) -> Project:
        """Copy the project with its data, but none of its scratch files and tracked runs."""
        shutil.copytree(
            self.folder, folder, ignore=shutil.ignore_patterns("work", "mlruns", ".git", "cache", "tmp")
        )
        return Project(folder)

    def warm_stages(self, *names: str) -> None:
        """Run stages' scripts without DVC, each as a fork of a process that all projects share.

        It has imported what they import: for tests of several projects.
        """
        for name in names:
            self.run(get_python(), f"pipelines/{name}.py")

    def warm_all_stages(self) -> None:
        """Run all stages by ``warm_stages``, and see that they write all that DVC would take."""
        names = load_stages(self.folder)
        self.warm_stages(*names)
        outputs = self.list_outputs(*names)
        assert len(outputs) > 10
        assert [out for out in outputs if not out.exists()] == []

    def stages(self, *names: str) -> None:
        """Run stages' scripts without DVC, one after the other in one process: what they import takes longer than they do."""
        each = "import runpy, sys; [runpy.run_path(f'pipelines/{s}.py', run_name='__main__') for s in sys.argv[1:]]"
        self.run("python", "-c", each, *names)
