"""A backend is found by name, has the form of its kind, and an unknown name lists the choices."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from caramel import registry
from caramel.errors import BackendError
from caramel.interfaces.benchmark import Benchmark
from caramel.interfaces.judge import JudgeFactory
from caramel.interfaces.language_model import LanguageModelSpec
from caramel.interfaces.method import Method
from caramel.interfaces.model import Family
from caramel.interfaces.parser import Parser
from caramel.interfaces.scene_graph import GraphParserSpec, ThesaurusFactory
from caramel.interfaces.scorer import ScorerSpec
from caramel.interfaces.source import SourceReader
from caramel.interfaces.text_judge import TextJudgeSpec
from caramel.interfaces.trainer import Trainer
from caramel.interfaces.writer import Writer
from caramel.registry import SCORERS, SOURCES, Registry
from caramel.runtime.code_deps import TABLES

NAMED = [(table, name) for table, kind in TABLES.items() for name in kind]
DESCRIBED = {
    "SCORERS": ScorerSpec,
    "FAMILIES": Family,
    "BENCHMARKS": Benchmark,
    "METHODS": Method,
    "LANGUAGE_MODELS": LanguageModelSpec,
    "TEXT_JUDGES": TextJudgeSpec,
    "GRAPH_PARSERS": GraphParserSpec,
}
CALLED = {
    "SOURCES": SourceReader,
    "WRITERS": Writer,
    "GENERATORS": Trainer,
    "BASES": Trainer,
    "JUDGES": JudgeFactory,
    "PARSERS": Callable[[str], Parser],
    "THESAURI": ThesaurusFactory,
}


@pytest.mark.parametrize(("table", "name"), NAMED)
def test_every_backend_is_where_the_table_says(table: str, name: str) -> None:
    module, _, entry = TABLES[table].get_target(name).partition(":")
    source = Path(find_spec(module).origin).read_text()
    assert f"\ndef {entry}(" in source or f"\n{entry} = " in source


@pytest.mark.parametrize(("table", "name"), NAMED)
def test_every_backend_has_the_form_of_its_kind(table: str, name: str) -> None:
    found = TABLES[table][name]
    if table in DESCRIBED:
        assert isinstance(found, DESCRIBED[table])
        assert found.name == name
        return
    wanted = CALLED[table]
    if inspect.isclass(wanted):
        arguments = [*inspect.signature(wanted.__call__).parameters.values()][1:]
    else:
        arguments = [inspect.Parameter("target", inspect.Parameter.POSITIONAL_ONLY)]
    places = [each for each in arguments if each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD)]
    keywords = {each.name for each in arguments if each.kind is each.KEYWORD_ONLY}
    inspect.signature(found).bind(*places, **dict.fromkeys(keywords))


def test_every_kind_is_typed_and_looked_at_here() -> None:
    assert {*DESCRIBED, *CALLED} == set(TABLES)
    assert set(TABLES) <= set(registry.__annotations__)


def test_a_backend_is_a_function_that_was_imported_on_demand() -> None:
    assert SOURCES["world"].__name__ == "sample_pairs"


@pytest.mark.parametrize("kind", TABLES.values())
def test_an_unknown_backend_lists_the_choices(kind: Registry[object]) -> None:
    with pytest.raises(BackendError) as stopped:
        kind["wrold"]
    assert f"Unknown {kind.name} backend 'wrold'" in str(stopped.value)
    assert str(stopped.value).endswith(f"Choices: {', '.join(kind)}.")


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(BackendError, match="Did you mean 'ngram'"):
        SCORERS["ngrams"]


def modules_after(code: str) -> list[str]:
    """Return the modules that are loaded in a process of its own after some code."""
    code = f"import sys; {code}; print(*sys.modules)"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


def test_the_registry_imports_no_backend_and_neither_do_the_names_of_one() -> None:
    listing = "from caramel import registry as r; [*r.FAMILIES, *r.SCORERS]; 'x' in r.JUDGES; r.BASES.get_target('pretrained')"
    for code in ("import caramel.registry", listing):
        found = [module for module in modules_after(code) if module.startswith("caramel.")]
        assert found == ["caramel.errors", "caramel.plugins", "caramel.registry"]


def test_what_describes_models_and_scorers_is_had_without_the_packages_that_run_them() -> None:
    code = "from caramel.registry import FAMILIES as f, SCORERS as s; [f[n] for n in f]; [s[n] for n in s]"
    assert not {"torch", "transformers", "open_clip", "sklearn"} & set(modules_after(code))
