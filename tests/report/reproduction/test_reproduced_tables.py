"""Measured figures stand beside the published ones: from the authors' files to the last digit, and with gaps."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest
from released import BIVLC, released

from caramel.errors import BackendError, ConfigError, DataError, ModelMemoryError, ResourceError, TrialError
from caramel.evaluation.evaluate import Evaluation
from caramel.report.reproduction.roster import find_table, read_models, resolve_models
from caramel.report.reproduction.runs import (
    MODEL_FILE,
    RELEASED,
    RUNS,
    Inputs,
    ScoredModel,
    Scorer,
    Trial,
    compute_released,
    hash_content,
    score_trials,
)
from caramel.report.reproduction.tables import compare_cells, write_paper
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame, write_table
from caramel.utils.resampling import Bootstrap


def write_figures(
    out: Path, model: str, origin: str, rows: list[tuple[str, str, str, float, int]], spec: str = ""
) -> None:
    """Write metrics of a model, by default of its spec in the roster: benchmark, subset, metric, value and n."""
    spec = spec or read_models()[model].spec
    for benchmark in {row[0] for row in rows}:
        records = [
            {"model": model, "benchmark": b, "subset": s, "metric": m, "value": v, "ci_low": v, "ci_high": v}
            | {"n": n, "ties": 0, "unscored": 0}
            for b, s, m, v, n in rows
            if b == benchmark
        ]
        folder = Trial(model, "", benchmark).locate_results(out, origin)
        folder.mkdir(parents=True)
        write_table(METRICS, build_frame(METRICS, records), folder / "metrics.parquet")
        if origin == RUNS:
            (folder / MODEL_FILE).write_text(json.dumps(asdict(ScoredModel(spec, hash_content(spec)))))


def test_the_authors_files_give_bivlcs_tables_to_the_last_digit(tmp_path: Path) -> None:
    names = ["bivlc:T3", "bivlc:T4", "bivlc:T5"]
    tables = [find_table(name) for name in names]
    models = resolve_models(tmp_path, ())
    inputs = Inputs(None, None, models, released(BIVLC), "fail")
    lines: list[str] = []
    assert compute_released(tables, inputs, tmp_path, Bootstrap(100, 0), lines.append) == 7
    assert sum(": computed from" in line for line in lines) == 7
    assert len([line for line in lines if "was not read" in line]) == 3  # published, and not among our copies
    cells = pd.concat([compare_cells(table, models, tmp_path) for table in tables])
    known = cells[cells["measured"] != ""]
    assert known.groupby("table").size().to_dict() == {"Table 3": 24, "Table 4": 27, "Table 5": 5}
    assert known["measured"].tolist() == known["published"].tolist()
    whole = known["n"] == known["n_published"]
    assert set(known["difference"][whole]) == {"+0.00"}
    assert set(known["difference"][~whole]) == {
        ""
    }  # their files of SugarCrepe have a row more than the release
    assert set(zip(known["benchmark"][~whole], known["n"][~whole], strict=True)) == {("sugarcrepe", 7512)}
    page, csv = write_paper(tables, models, tmp_path, {})
    assert "| CLIP\\_COCO | 84.66 / – | 82.75 / 82.75 (+0.00) |" in page.read_text(encoding="utf-8")
    assert len(pd.read_csv(csv)) == sum(len(table.cells) for table in tables)


def test_figures_of_a_file_that_is_broken_now_do_not_stay(tmp_path: Path) -> None:
    table, models = find_table("bivlc:T5"), resolve_models(tmp_path, ())
    authors, out = tmp_path / "authors", tmp_path / "out"
    shutil.copytree(released(BIVLC), authors)
    inputs = Inputs(None, None, models, authors, "fail")
    lines: list[str] = []
    assert compute_released([table], inputs, out, Bootstrap(100, 0), lines.append) > 0
    assert (compare_cells(table, models, out)["measured"] != "").any()
    for file in (path for path in authors.rglob("*") if path.is_file()):
        file.write_text("broken", encoding="utf-8")
    assert compute_released([table], inputs, out, Bootstrap(100, 0), lines.append) == 0
    assert "was not read" in lines[-1]
    assert (compare_cells(table, models, out)["measured"] == "").all()


def test_a_figure_of_a_part_of_the_release_has_no_difference(tmp_path: Path) -> None:
    table, models = find_table("sugarcrepe_pp:T4"), read_models()
    rows = [("sugarcrepe_pp", "swap_obj", "itt", 0.5, 245), ("sugarcrepe_pp", "swap_att", "itt", 0.5, 10)]
    write_figures(tmp_path, "CLIP ViT-B/32", RUNS, rows)
    cells = compare_cells(table, models, tmp_path)
    of_clip = cells[(cells["model"] == "CLIP ViT-B/32") & (cells["metric"] == "itt")].set_index("subset")
    assert of_clip.loc["swap_obj", ["published", "measured", "difference"]].tolist() == [
        "45.18",
        "50.00",
        "+4.82",
    ]
    assert of_clip.loc["swap_att", ["measured", "difference", "n"]].tolist() == ["50.00", "", 10]
    assert of_clip.loc["replace_obj", "measured"] == ""
    page, _ = write_paper([table], models, tmp_path, {("NegCLIP", "sugarcrepe_pp"): "no file"})
    text = page.read_text(encoding="utf-8")
    assert "CLIP: not all instances of the release: swap\\_att 10 of 666." in text
    assert "NegCLIP was not measured: no file." in text
    assert "Human was not measured: people answered." in text


def test_figures_of_both_origins_have_a_row_each(tmp_path: Path) -> None:
    for origin, value in ((RUNS, 0.5), (RELEASED, 0.75)):
        write_figures(tmp_path, "CLIP_COCO", origin, [("bivlc", "all", "i2t", value, 2933)])
    cells = compare_cells(find_table("bivlc:T3"), read_models(), tmp_path)
    both = cells[(cells["model"] == "CLIP_COCO") & (cells["metric"] == "i2t")]
    assert both[["measured", "origin"]].to_numpy().tolist() == [
        ["50.00", "measured here"],
        ["75.00", "from the authors' result file"],
    ]


def test_a_mean_of_models_needs_all_of_them(tmp_path: Path) -> None:
    models, table = read_models(), find_table("sugarcrepe_pp:T20")
    members = models["Mean of 15 CLIP variants"].mean_of
    assert len(members) == 15
    for number, member in enumerate(members[:-1]):
        write_figures(tmp_path, member, RUNS, [("sugarcrepe_pp", "swap", "itt", number / 100, 911)])

    def read_mean() -> str:
        cells = compare_cells(table, models, tmp_path).set_index(["row", "benchmark", "subset"])
        return str(cells.loc[("VLMs", "sugarcrepe_pp", "swap"), "measured"])

    assert read_mean() == ""
    write_figures(tmp_path, members[-1], RUNS, [("sugarcrepe_pp", "swap", "itt", 0.14, 911)])
    assert float(read_mean()) == pytest.approx(7.0)


def test_a_set_of_unknown_size_has_no_difference_and_says_so(tmp_path: Path) -> None:
    table, models = find_table("sugarcrepe:T8"), read_models()
    write_figures(tmp_path, "CLIP RN50", RUNS, [("vl_checklist", "object", "accuracy", 0.8685, 1234)])
    cells = compare_cells(table, models, tmp_path).set_index(["row", "subset"])
    assert cells.loc[("RN50", "object"), ["measured", "difference", "n_published"]].tolist() == [
        "86.85",
        "",
        "",
    ]
    page, _ = write_paper([table], models, tmp_path, {})
    assert "RN50: not all instances of the release: object 1,234 of an unknown number." in page.read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("name", ["sugarcrepe:T8", "sugarcrepe_pp:T8", "sugarcrepe_pp:T20", "crepe:T16"])
def test_a_page_without_any_figure_holds_the_published_ones(tmp_path: Path, name: str) -> None:
    table = find_table(name)
    page, csv = write_paper([table], read_models(), tmp_path, {})
    text = page.read_text(encoding="utf-8")
    assert all(f"{value} / –" in text for value in table.cells["value"])
    assert pd.read_csv(csv, dtype=str)["published"].tolist() == table.cells["value"].tolist()


def read_measured(out: Path, spec: str) -> set[str]:
    """Return the figures of CLIP ViT-B/32 in a page, with a spec in place of the roster's."""
    models = resolve_models(out, (f"CLIP ViT-B/32={spec}",) if spec else ())
    cells = compare_cells(find_table("bivlc:T3"), models, out)
    return {*cells["measured"][cells["model"] == "CLIP ViT-B/32"]} - {""}


def test_figures_of_another_spec_or_of_other_weights_are_not_those_of_the_model(tmp_path: Path) -> None:
    weights = tmp_path / "mine.pt"
    weights.write_bytes(b"first")
    spec = f"open_clip:ViT-B-32:{weights}"
    write_figures(tmp_path, "CLIP ViT-B/32", RUNS, [("bivlc", "all", "i2t", 0.5, 2933)], spec)
    assert read_measured(tmp_path, spec) == {"50.00"}
    assert read_measured(tmp_path, "") == set()
    page = write_paper([find_table("bivlc:T3")], read_models(), tmp_path, {})[0].read_text()
    page = page.replace("\\", "")
    assert f"holds figures of '{spec}' as its weights were" in page, "they do not vanish without a word"
    weights.write_bytes(b"second")
    assert read_measured(tmp_path, spec) == set()
    weights.unlink()  # as where results of another machine are read
    assert read_measured(tmp_path, spec) == {"50.00"}


def test_the_spec_of_a_measured_figure_is_in_the_csv(tmp_path: Path) -> None:
    write_figures(tmp_path, "CLIP ViT-B/32", RUNS, [("bivlc", "all", "i2t", 0.5, 2933)])
    cells = compare_cells(find_table("bivlc:T3"), read_models(), tmp_path)
    measured = cells["measured"] != ""
    assert set(cells["spec"][measured]) == {read_models()["CLIP ViT-B/32"].spec}
    assert set(cells["spec"][~measured]) == {""}


def test_a_part_of_the_authors_file_has_no_difference(tmp_path: Path) -> None:
    write_figures(tmp_path, "CLIP_COCO", RELEASED, [("bivlc", "all", "i2t", 0.5, 2000)])
    cells = compare_cells(find_table("bivlc:T3"), read_models(), tmp_path)
    assert set(cells["difference"][cells["measured"] != ""]) == {""}


def raise_error(error: Exception) -> Scorer:
    def score(*_: object) -> Evaluation:
        raise error

    return score


@pytest.fixture
def trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """Return trials of two models that can be loaded, as far as their files tell."""
    monkeypatch.setattr("caramel.report.reproduction.runs.missing_of", lambda spec: [])
    return [Trial(name, read_models()[name].spec, "bivlc") for name in ("CLIP ViT-B/32", "CLIP RN50")]


@pytest.mark.parametrize("error", [BackendError, DataError, ModelMemoryError, TrialError, RuntimeError])
def test_errors_of_models_are_the_reason_of_each(
    tmp_path: Path, trials: list[Trial], error: type[Exception]
) -> None:
    inputs = Inputs(tmp_path, None, read_models(), None, "fail")
    problems = score_trials(trials, inputs, tmp_path / "out", raise_error(error("no such weights")), list)
    assert problems == {(trial.model, "bivlc"): "no such weights" for trial in trials}


@pytest.mark.parametrize("error", [ConfigError, ResourceError, OSError])
def test_an_error_that_is_of_no_model_ends_the_call(
    tmp_path: Path, trials: list[Trial], error: type[Exception]
) -> None:
    inputs = Inputs(tmp_path, None, read_models(), None, "fail")
    with pytest.raises(error, match="the server does not answer"):
        score_trials(trials, inputs, tmp_path / "out", raise_error(error("the server does not answer")), list)
