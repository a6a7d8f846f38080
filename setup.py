"""Build the wheel with the files of ``caramel new``, which lie once, at their own places in this repository."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PATTERNS = (ROOT / "src/caramel/project/template.txt").read_text(encoding="utf-8").split()


def template() -> list[str]:
    """Return the paths of the files, relative to the repository."""
    found = {pattern: sorted(ROOT.glob(pattern)) for pattern in PATTERNS}
    if missing := [pattern for pattern, files in found.items() if not files]:
        raise SystemExit(f"The wheel cannot be built. Missing files: {', '.join(missing)}.")
    return [file.relative_to(ROOT).as_posix() for files in found.values() for file in files if file.is_file()]


class WithTemplate(build_py):
    """Builds the package with ``caramel/project/template``; an editable install reads the repository itself."""

    def run(self) -> None:
        """Copy the modules, then the files."""
        super().run()
        for name in () if self.editable_mode else template():
            target = Path(self.build_lib, "caramel/project/template", name)
            self.mkpath(str(target.parent))
            self.copy_file(name, str(target))

    def get_source_files(self) -> list[str]:
        """Return the files of a source distribution."""
        return [*super().get_source_files(), *template()]


setup(cmdclass={"build_py": WithTemplate})
