"""A closure holds every module that is reached, in whatever way, and nothing else; its hash follows it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from caramel.registry import Registry
from caramel.runtime.code_deps import Package, Tables, compute_code_version, find_dependencies
from caramel.runtime.code_manifest import hash_sources

ROOT = Path(__file__).parents[2]

PLANTED = {
    "from package import module": ("from mine.low import paint\n", "low.paint"),
    "from package import name": ("from mine.low.paint import colour\n", "low.paint"),
    "plain import": ("import mine.low.paint\n", "low.paint"),
    "relative import": ("from ..low import paint\n", "low.paint"),
    "relative import of a package": ("from .. import low\nfrom ..low.paint import colour\n", "low.paint"),
    "import in a function": ("def f():\n    from mine.low import paint\n", "low.paint"),
    "import in a method": (
        "class A:\n    def f(self):\n        if self:\n            import mine.low.paint\n",
        "low.paint",
    ),
    "import of two more": ("from mine.low import far\n", "low.paint"),
    "package that does something": ("from mine.busy import quiet\n", "busy"),
    "package that does something beside handing on": ("from mine.half import quiet\n", "half"),
    "name handed on": ("from mine.shop import colour\n", "low.paint"),
    "all names handed on": ("from mine.shop import *\n", "low.paint"),
    "name handed on, of the package": ("import mine.shop as s\ns.colour\n", "low.paint"),
    "name handed on, by its whole name": ("import mine.shop\nmine.shop.colour\n", "low.paint"),
    "name handed on, in a function": ("def f():\n    from ..shop import colour\n", "low.paint"),
    "backend": ("from mine.registry import JUDGES\ndef f(name): JUDGES[name]()\n", "low.paint"),
    "backend in a function": (
        "def f(name):\n    from ..registry import JUDGES as j\n    j[name]\n",
        "low.paint",
    ),
    "backend of a module": ("from mine import registry\nx = registry.JUDGES['good']\n", "low.paint"),
    "backend of a module by another name": ("import mine.registry as r\nr.JUDGES.place('x')\n", "low.paint"),
    "backend of a module by its whole name": ("import mine.registry\nmine.registry.JUDGES\n", "low.paint"),
    "backend of all": ("from mine.registry import *\nJUDGES['good']\n", "low.paint"),
    "what checks a kind": ("from mine.registry import JUDGES\nJUDGES.missing('x')\n", "low.looked"),
}

# A package that hands a name on at its first use, as caramel's own does.
LAZY = """
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mine.low.paint import colour as colour
else:

    def __getattr__(name):
        return getattr(import_module("mine.low.paint"), name)


__all__ = ["colour"]
"""


@pytest.fixture
def mine(tmp_path: Path) -> Package:
    """A small package, with a registry of two backends of one kind."""
    files = {
        "__init__.py": '"""Mine."""\n',
        "registry.py": "JUDGES = Kind('judge', {})\n",
        "low/looked.py": "",
        "low/__init__.py": "",
        "low/paint.py": "colour = 1\n",
        "low/other.py": "",
        "low/far.py": "def f():\n    from mine.low.paint import colour\n",
        "busy/__init__.py": "x = 1\n",
        "busy/quiet.py": "",
        "shop/__init__.py": LAZY,
        "shop/quiet.py": "",
        "half/__init__.py": f"{LAZY}\nx = 1\n",
        "half/quiet.py": "",
        "carry/__init__.py": "",
        "carry/run.py": "from mine.low import other\n",
        "high/__init__.py": "",
        "high/work.py": "",
    }
    for name, text in files.items():
        (tmp_path / "src/mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src/mine" / name).write_text(text, encoding="utf-8")
    (tmp_path / "script.py").write_text("from mine.high import work\n", encoding="utf-8")
    tables: Tables = {
        "JUDGES": Registry(
            "judge", {"good": "mine.low.paint:f", "bad": "mine.low.far:f"}, check="mine.low.looked:f"
        ),
        "PLAIN": Registry("plain", {"one": "json:dumps"}),
    }
    return Package("mine", tmp_path / "src" / "mine", tables, frozenset({"registry", "carry"}))


@pytest.mark.parametrize("kind", PLANTED)
def test_a_module_that_is_reached_in_any_way_is_in_the_closure(
    kind: str, mine: Package, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    assert find_dependencies([script], mine) == {"mine.high.work"}
    text, found = PLANTED[kind]
    (mine.folder / "high/work.py").unlink()  # what was read of it is kept
    script.write_text("from mine.high import again\n", encoding="utf-8")
    (mine.folder / "high/again.py").write_text(text, encoding="utf-8")
    again = tmp_path / "again.py"
    shutil.move(script, again)
    assert f"mine.{found}" in find_dependencies([again], mine)


@pytest.mark.parametrize(
    "text",
    [
        "import json\nfrom pathlib import Path\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mine.low import paint\n",
        "from mine import registry\n",
        "from mine.carry import run\n",
        "import mine.shop\nmine.shop\n",
        "from mine import shop\nshop.__name__\n",
        "from mine.registry import OTHERS\nOTHERS['x']\n",
        "from mine.registry import PLAIN\nPLAIN['one']\n",
        "from elsewhere import JUDGES\nJUDGES['good']\n",
        "import elsewhere as registry\nregistry.JUDGES['good']\n",
        "JUDGES = ()\nprint(JUDGES)\n",
        "if TYPE_CHECKING:\n    from mine.registry import JUDGES\n",
        "from ... import low\n",
    ],
)
def test_what_shapes_nothing_is_not_in_the_closure(text: str, mine: Package, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(text, encoding="utf-8")
    assert find_dependencies([tmp_path / "one.py"], mine) == set()


def test_of_a_kind_of_which_one_backend_is_named_the_others_do_not_count(
    mine: Package, tmp_path: Path
) -> None:
    (tmp_path / "one.py").write_text("from mine.registry import JUDGES\n", encoding="utf-8")
    assert find_dependencies([tmp_path / "one.py"], mine) == {
        "mine.low.paint",
        "mine.low.far",
        "mine.low.looked",
    }
    assert find_dependencies([tmp_path / "one.py"], mine, {"judge": "good"}) == {
        "mine.low.paint",
        "mine.low.looked",
    }


def test_a_package_that_hands_names_on_is_not_in_the_closure_of_what_stands_in_it(
    mine: Package, tmp_path: Path
) -> None:
    (tmp_path / "one.py").write_text("from mine.shop import quiet\n", encoding="utf-8")
    assert find_dependencies([tmp_path / "one.py"], mine) == {"mine.shop.quiet"}


def test_a_script_that_uses_the_functions_of_caramel_depends_on_what_they_do(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import caramel\ncaramel.__version__\n", encoding="utf-8")
    (tmp_path / "two.py").write_text("import caramel\ncaramel.score(1, 2)\n", encoding="utf-8")
    assert find_dependencies([tmp_path / "one.py"]) == set()
    assert {"caramel.api", "caramel.evaluation.score_model"} <= find_dependencies([tmp_path / "two.py"])


def test_a_script_is_listed_with_the_modules_that_it_reaches_and_the_data_beside_them(
    mine: Package, tmp_path: Path
) -> None:
    (tmp_path / "two.py").write_text("from mine.low import far\n", encoding="utf-8")
    (mine.folder / "low" / "page.html").write_text("", encoding="utf-8")
    assert list(hash_sources(tmp_path / "two.py", mine)) == [
        "mine/low/far.py",
        "mine/low/page.html",
        "mine/low/paint.py",
    ]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package, which may be edited."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "src" / "caramel"


def version(copied: Path, module: str, only: str = "") -> str:
    """Return what ``code_version`` says in a process of its own, with the copy's sources."""
    code = f"from caramel.runtime.code_deps import compute_code_version as v; print(v({module!r}{only}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(copied.parent), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_hash_of_a_training_follows_its_own_code_and_no_edit_in_chat_readers_audit_or_report(
    copied: Path,
) -> None:
    training, embedding = "caramel.training.recipes.finetune", "caramel.evaluation.scores.encoding"
    before = (
        version(copied, training),
        version(copied, embedding, ", model='open_clip'"),
    )
    for path in (
        "models/chat/model.py",
        "benchmarks/readers/bivlc.py",
        "audit/audit.py",
        "report/page.py",
        "runtime/ray/sharded_map.py",
        "api.py",
    ):
        with (copied / path).open("a", encoding="utf-8") as stream:
            stream.write("\nEDITED = True\n")
    assert (
        version(copied, training),
        version(copied, embedding, ", model='open_clip'"),
    ) == before
    assert version(copied, embedding, ", model='chat'") != version(
        ROOT / "src/caramel", embedding, ", model='chat'"
    )
    with (copied / "models/open_clip/text_padding.py").open("a", encoding="utf-8") as stream:
        stream.write("\nEDITED = True\n")
    after = (
        version(copied, training),
        version(copied, embedding, ", model='open_clip'"),
    )
    assert after[0] != before[0]
    assert after[1] != before[1]


def test_a_module_outside_of_the_package_counts_with_what_it_reaches() -> None:
    assert compute_code_version(__name__) != compute_code_version("caramel.runtime.code_manifest")
