"""import caramel is light, and what it hands on is what the commands do, on data frames."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import caramel
from caramel import api, cli
from caramel.cli.commands import cli as commands
from caramel.errors import BackendError, CaramelError, ConfigError, ContractError, DataError
from caramel.evaluation.score_model import LoadedBenchmark
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame, write_table


def captions(n: int = 30) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "filename": [f"{i}.jpg" for i in range(n)],
            "caption": [f"a cat and {i} dogs" for i in range(n)],
            "negative_caption": [f"A dog, {i} cats too" for i in range(n)],
        }
    )


def similarities(model: str, seed: int, n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = {
        "instance_id": [f"i{i}" for i in range(n)],
        "model": model,
        "benchmark": "sugarcrepe",
        "image_id": [f"{i // 2}.jpg" for i in range(n)],
        "subsets": [["swap", "swap_obj"]] * n,
        "s_c0_i0": rng.normal(size=n).round(1),
        "s_c1_i0": rng.normal(size=n).round(1),
    }
    return build_frame(SIMILARITIES, pd.DataFrame(rows))


def command(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    assert not ended.value.code


def test_the_import_loads_nothing_but_the_package_itself() -> None:
    code = "import sys; before = set(sys.modules); import caramel; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=_plain())
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "caramel" in loaded, done.stderr
    assert loaded - {"caramel"} <= set(sys.stdlib_module_names)
    assert "caramel.api" not in done.stdout


def _plain() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(caramel.__file__).parents[1])}


def test_the_import_takes_no_more_than_a_fifth_of_a_second() -> None:
    code = "import time; t = time.process_time(); import caramel; print(time.process_time() - t)"
    runs = [
        float(
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=_plain()).stdout
        )
        for _ in range(3)
    ]
    assert min(runs) < 0.2  # of the processor's time: other work on the machine does not count


def test_all_that_is_named_is_handed_on_and_nothing_else() -> None:
    for name in caramel.__all__:
        assert getattr(caramel, name) is getattr(api, name)
        assert name in dir(caramel)
        assert "Example:" in getattr(caramel, name).__doc__
    assert set(caramel.__all__) == {
        name
        for name, value in vars(api).items()
        if inspect.isfunction(value) and value.__module__ == api.__name__ and not name.startswith("_")
    }
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        caramel.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_a_room_of_the_package_is_not_hidden_by_a_function() -> None:
    rooms = {path.stem for path in Path(caramel.__file__).parent.iterdir()}
    assert not rooms & set(caramel.__all__)


@pytest.mark.slow
def test_type_checkers_see_the_functions(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import caramel\nreveal_type(caramel.metrics)\nreveal_type(caramel.score)\ncaramel.nonsense\n"
    )
    config = tmp_path / "mypy.ini"
    # What others have written is not followed: a minute of work that no type of ours depends on.
    config.write_text(
        "[mypy]\nstrict = true\nfollow_imports = skip\nignore_missing_imports = true\n"
        "[mypy-caramel.*]\nfollow_imports = silent\n"
    )
    given = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(config),
        "--cache-dir",
        str(tmp_path),
        str(script),
    ]
    environment = {**_plain(), "MYPYPATH": str(Path(caramel.__file__).parents[1]), "PATH": ""}
    said = subprocess.run(given, capture_output=True, text=True, env=environment).stdout
    assert "benchmark: str | None" in said or "benchmark: Union[str, None]" in said
    assert "LoadedBenchmark" in said
    assert 'Module has no attribute "nonsense"' in said


@pytest.mark.parametrize("seed", [-1, 2**32 - 99, 2**32, 1.5])
def test_seeds_have_the_range_of_the_commands(seed: Any) -> None:
    rows = similarities("m", 1)
    for call in (
        partial(caramel.score, None, object.__new__(LoadedBenchmark)),
        partial(caramel.metrics, rows),
        partial(caramel.compare, rows, rows),
        partial(caramel.audit_captions, captions()),
        partial(caramel.refine_captions, captions()),
    ):
        with pytest.raises(ConfigError, match=r"seed=.* must be a whole number from 0 to 4,294,967,196"):
            call(seed=seed)


def test_defaults_are_those_of_the_commands() -> None:
    for function, name, pairs in (
        (api.audit_captions, "audit", ("folds", "seed")),
        (
            api.refine_captions,
            "refine",
            ("folds", "seed", "within", "target", "acceptance", "rows"),
        ),
        (api.score, "eval", ("n_bootstrap", "seed", "precision")),
        (api.metrics, "metrics", ("n_bootstrap", "seed")),
        (api.compare, "compare", ("n_bootstrap", "seed")),
    ):
        options = {option.name: option.default for option in commands.commands[name].params}
        for pair in pairs:
            ours, theirs = pair if isinstance(pair, tuple) else (pair, pair)
            default = inspect.signature(function).parameters[ours].default
            assert default == options[theirs] or (default is None and not isinstance(options[theirs], int)), (
                pair
            )


def test_metrics_of_a_frame_are_those_of_the_command_on_its_file(tmp_path: Path) -> None:
    rows = similarities("m", 1)
    write_table(SIMILARITIES, rows, tmp_path / "similarities.parquet")
    given = ["--benchmark", "sugarcrepe", str(tmp_path / "similarities.parquet"), "--n-bootstrap", "100"]
    command("metrics", *given, "--out", str(tmp_path / "out"))
    written = pd.read_parquet(tmp_path / "out" / "metrics.parquet")
    found = caramel.metrics(rows, n_bootstrap=100)
    pd.testing.assert_frame_equal(found, written, check_dtype=False)
    assert found["ties"].max() > 0
    again = caramel.metrics(rows.sample(frac=1, random_state=0), benchmark="sugarcrepe", n_bootstrap=100)
    pd.testing.assert_frame_equal(
        again.sort_values(["subset"]), found.sort_values(["subset"]), check_like=True
    )


def test_metrics_of_others_columns_are_those_of_the_command_on_their_file(tmp_path: Path) -> None:
    rows = similarities("m", 2)[["instance_id", "image_id", "model", "s_c0_i0", "s_c1_i0"]]
    verdicts = rows[["instance_id", "image_id", "model"]].assign(correct=rows["s_c0_i0"] > rows["s_c1_i0"])
    for given in (rows, verdicts):
        given.to_csv(tmp_path / "rows.csv", index=False)
        arguments = ["--benchmark", "sugarcrepe", str(tmp_path / "rows.csv"), "--n-bootstrap", "100"]
        command("metrics", *arguments, "--out", str(tmp_path / "out"))
        written = pd.read_parquet(tmp_path / "out" / "metrics.parquet")
        found = caramel.metrics(given, benchmark="sugarcrepe", n_bootstrap=100)
        pd.testing.assert_frame_equal(found, written, check_dtype=False)


def test_metrics_of_a_frame_with_a_further_column_are_those_of_the_benchmark_asked_for() -> None:
    rows = similarities("m", 3)
    expected = caramel.metrics(rows, n_bootstrap=100)
    both = pd.concat([similarities("m", 4).assign(benchmark="winoground"), rows], ignore_index=True)
    found = caramel.metrics(both.assign(note="x"), benchmark="sugarcrepe", n_bootstrap=100)
    pd.testing.assert_frame_equal(found, expected)
    with pytest.raises(
        DataError, match=r"no instance of benchmark 'bivlc'; .*\['winoground', 'sugarcrepe'\]"
    ):
        caramel.metrics(both.assign(note="x"), benchmark="bivlc", n_bootstrap=100)


def test_compare_of_frames_is_that_of_the_command_on_their_files(tmp_path: Path) -> None:
    sides = {name: similarities(name, seed) for seed, name in enumerate(("a", "b"))}
    for name, rows in sides.items():
        write_table(SIMILARITIES, rows, tmp_path / name / "similarities.parquet")
    folders = [str(tmp_path / name) for name in sides]
    command("compare", *folders, "--out", str(tmp_path / "c"), "--n-bootstrap", "100")
    found = caramel.compare(sides["a"], sides["b"], n_bootstrap=100)
    pd.testing.assert_frame_equal(found, pd.read_csv(tmp_path / "c" / "comparison.csv"), check_dtype=False)
    seeds = caramel.compare([sides["a"], similarities("a", 7)], [sides["b"]], n_bootstrap=100)
    assert seeds["seeds_a"].tolist() == [2] * len(seeds)


def test_what_an_audit_does_not_ask_of_images_is_a_warning(tmp_path: Path) -> None:
    rows = captions()
    rows = rows.assign(image=[f"{n}.png" for n in range(len(rows))])
    (tmp_path / "0.png").touch()
    with pytest.warns(UserWarning, match=f"0 of {len(rows)} rows .* images are not audited"):
        caramel.audit_captions(rows, scorers=["length"], folds=2, images=tmp_path)


def test_an_audit_of_a_frame_is_that_of_the_command_on_its_file(tmp_path: Path) -> None:
    captions().to_csv(tmp_path / "rows.csv", index=False)
    scorers = ["casing", "length"]
    pool = captions().assign(caption="B " + captions()["caption"])
    pool.to_csv(tmp_path / "pool.csv", index=False)
    given = [f"--scorer={name}" for name in scorers] + ["--learn-from", str(tmp_path / "pool.csv")]
    command("audit", str(tmp_path / "rows.csv"), "--out", str(tmp_path / "out"), "--folds", "2", *given)
    written = json.loads((tmp_path / "out" / "audit.json").read_text())
    found = caramel.audit_captions(
        captions(), scorers=scorers, folds=2, name="rows", learn_from={"pool": pool}
    )
    assert found.best == written["best_blind_attacker"]["overall"]
    assert found.best["micro"] == 1
    for mine, theirs in zip(found.attacks, written["attacks"], strict=True):
        assert mine.source == theirs["source"]
        assert mine.figures["casing"] == theirs["scorers"]["casing"]
    assert {name: list(ids) for name, ids in found.defects.items()} == {
        name: part["rows"] for name, part in written["defects"].items()
    }


def test_a_refinement_of_a_frame_is_that_of_the_command_on_its_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = [f"a {' '.join(f'w{i}' for i in rng.integers(30, size=5))}" for _ in range(240)]
    marked = rng.random(240) < np.repeat([0.2, 0.8], 120)
    texts = [t.replace("a ", "a purple ") if m else f"{t} w0" for t, m in zip(texts, marked, strict=True)]
    names = [f"{i // 2}.jpg" for i in range(120)]
    rows = pd.DataFrame({"filename": names, "caption": texts[:120], "negative_caption": texts[120:]})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    settings: dict[str, Any] = {"scorers": ["probe"], "attackers": ["length"], "methods": ["adversarial"]}
    given = [
        "--scorer",
        "probe",
        "--attacker",
        "length",
        "--method",
        "adversarial",
        "--cell",
        "1",
        "--folds",
        "3",
    ]
    command("refine", str(tmp_path / "rows.csv"), "--out", str(tmp_path / "out"), *given)
    found = caramel.refine_captions(rows, **settings, cells=[1.0], folds=3)
    written = pd.read_parquet(tmp_path / "out" / "refined.parquet")
    assert found.rows["pair_id"].tolist() == written["pair_id"].tolist()
    assert found.rows["caption"].tolist() == written["caption"].tolist()
    assert len(found.rows) + len(found.rejects) == 120
    report = json.loads((tmp_path / "out" / "refine.json").read_text())["best_blind_attacker"]
    assert found.judged["new_scorers"][1][0] == report["new_scorers"]["after"]["accuracy"]


FRAMES: dict[str, tuple[Callable[[], Any], type[CaramelError], str]] = {
    "no frame": (lambda: [{"caption": "a"}], DataError, "must be a pandas DataFrame, not list"),
    "a missing column": (
        lambda: captions().drop(columns="negative_caption"),
        DataError,
        r"lacks the columns \['negative_caption'\]",
    ),
    "no row": (lambda: captions(0), DataError, "holds no row"),
    "numbers": (
        lambda: captions().assign(caption=1),
        DataError,
        "row 0: column 'caption' must be text, not 1",
    ),
    "an id twice": (
        lambda: captions().assign(id="x"),
        DataError,
        "ids are duplicates .number of duplicates: (30|29)",
    ),
    "a column twice": (
        lambda: pd.concat([captions(), captions()[["caption"]]], axis=1),
        DataError,
        "several columns 'caption'",
    ),
    "one group": (lambda: captions().assign(filename="1.jpg"), DataError, "all one group"),
    "no scorer": (captions, BackendError, "Unknown scorer 'lenght'. Did you mean 'length'"),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_captions_that_cannot_be_audited_are_explained(kind: str) -> None:
    make, error, message = FRAMES[kind]
    with pytest.raises(error, match=message):
        caramel.audit_captions(make(), scorers=["lenght" if kind == "no scorer" else "length"])
    if kind not in ("one group", "no scorer"):
        with pytest.raises(error, match=message):
            caramel.refine_captions(make())


RESULTS: dict[str, tuple[Callable[[], Any], str | None, type[CaramelError], str]] = {
    "no frame": (lambda: None, None, DataError, "must be a pandas DataFrame, not NoneType"),
    "no row": (lambda: similarities("m", 0, 0), None, DataError, "has no rows"),
    "no benchmark": (lambda: similarities("m", 0)[["s_c0_i0"]], None, ConfigError, "Give benchmark=NAME"),
    "an unknown benchmark": (lambda: similarities("m", 0), "sugarcrap", BackendError, "sugarcrepe"),
    "another benchmark": (
        lambda: similarities("m", 0),
        "bivlc",
        DataError,
        "no instance of benchmark 'bivlc'",
    ),
    "texts as scores": (
        lambda: similarities("m", 0).assign(s_c0_i0="high"),
        None,
        ContractError,
        "'s_c0_i0' is of type",
    ),
    "an instance twice": (
        lambda: similarities("m", 0).assign(instance_id="i"),
        None,
        ContractError,
        r"duplicate keys .*: 1\n  - \('i', 'm', 'sugarcrepe'\)",
    ),
    "others' instance twice": (
        lambda: pd.DataFrame({"id": ["x", "x"], "s_c0_i0": [1.0, 2.0], "s_c1_i0": [0.0, 0.0]}),
        "sugarcrepe",
        DataError,
        r"Duplicate instances \(1\) of model 'model'",
    ),
    "no score": (lambda: captions(), "sugarcrepe", DataError, "no column of scores or verdicts"),
    "a wrong verdict": (
        lambda: captions().assign(correct="perhaps"),
        "sugarcrepe",
        DataError,
        "row 0: 'perhaps' in column 'correct' is not a verdict",
    ),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_results_that_cannot_be_judged_are_explained(kind: str) -> None:
    make, name, error, message = RESULTS[kind]
    with pytest.raises(error, match=message):
        caramel.metrics(make(), benchmark=name)


def test_results_that_cannot_be_compared_are_explained() -> None:
    a, b = similarities("a", 0), similarities("b", 1)
    with pytest.raises(DataError, match=r"must hold one model; one holds 2"):
        caramel.compare(pd.concat([a, b]), b)
    with pytest.raises(ContractError, match="missing columns"):
        caramel.compare(a.drop(columns="s_true"), b)
    with pytest.raises(DataError, match="only one of the models scored: "):
        caramel.compare(a, b.head(10))
    with pytest.raises(DataError, match="Nothing to compare"):
        caramel.compare([], b)


WRONG: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "resamples": (
        caramel.metrics,
        {"n_bootstrap": 99},
        "n_bootstrap=99 must be a whole number from 100 to 100,000",
    ),
    "a seed": (caramel.metrics, {"seed": -1}, "seed=-1"),
    "a seed that is none": (caramel.metrics, {"seed": None}, "seed=None"),
    "folds": (caramel.audit_captions, {"folds": 1}, "folds=1 must be a whole number from 2"),
    "folds that are none": (caramel.audit_captions, {"folds": True}, "folds=True"),
    "one scorer": (caramel.audit_captions, {"scorers": "length"}, r"must be a list of names: \['length'\]"),
    "a target": (caramel.refine_captions, {"target": 0.4}, "target=0.4 must be a number from 0.5 to 1"),
    "rows": (caramel.refine_captions, {"rows": 0}, "rows=0"),
    "a method": (caramel.refine_captions, {"methods": ["magic"]}, "methods=.*'magic'"),
    "a cell": (caramel.refine_captions, {"cells": [2]}, "cell"),
    "within": (caramel.refine_captions, {"within": "type"}, "within='type'"),
    "acceptance": (caramel.refine_captions, {"acceptance": "none"}, "acceptance='none'"),
    "nobody to judge": (
        caramel.refine_captions,
        {"scorers": ["length"], "attackers": ["length"]},
        "not used for refinement",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_arguments_out_of_range_are_explained(kind: str) -> None:
    function, arguments, message = WRONG[kind]
    with pytest.raises(ConfigError, match=message):
        function(captions() if function is not caramel.metrics else similarities("m", 0), **arguments)


def test_a_frame_that_was_given_is_not_changed() -> None:
    for function, rows, arguments in (
        (caramel.audit_captions, captions(), {"scorers": ["length"], "folds": 2}),
        (caramel.metrics, similarities("m", 0), {"n_bootstrap": 100}),
    ):
        before = rows.copy(deep=True)
        function(rows, **arguments)
        pd.testing.assert_frame_equal(rows, before)
