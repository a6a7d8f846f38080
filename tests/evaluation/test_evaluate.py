"""Models × benchmarks: what is checked first, what is written, what is not done twice."""

import io
import json
from pathlib import Path

import encoders
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from small_releases import write_release, write_sugarcrepe

from caramel.errors import BackendError, ConfigError, DataError
from caramel.evaluation import evaluate as evaluating
from caramel.evaluation.benchmark_source import BenchmarkSource
from caramel.evaluation.evaluate import Evaluation, run_evaluation, take_turns
from caramel.evaluation.preflight import find_problems
from caramel.evaluation.scores import encoding
from caramel.interfaces.benchmark import Task
from caramel.interfaces.settings import Compute, Execution
from caramel.models.specs import open_model
from caramel.runtime.ray import sharded_map, trials
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import METRICS
from caramel.utils.resampling import Bootstrap

SETTINGS = {
    "compute": Compute("cpu", "fp32"),
    "batch_size": None,
    "bootstrap": Bootstrap(100, 0),
    "execution": Execution("inline", Path("trials"), 1.0),
    "store": "store",
}
RAY = Execution("ray", Path("trials"), 1.0)

pytestmark = pytest.mark.usefixtures("empty_figure")


def jpeg(number: int) -> bytes:
    """Return a small picture like no other."""
    pixels = np.random.default_rng(number).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, families: None) -> BenchmarkSource:
    """A SugarCrepe of two subtypes, 12 instances each over 6 images."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    captions = {
        subtype: [(f"{subtype} {n // 2}", f"not {subtype} {n}") for n in range(12)]
        for subtype in ("replace_obj", "swap_att")
    }
    write_sugarcrepe(Path("data"), captions, 6)
    Path("images").mkdir()
    for n in range(6):
        Path("images", f"{n:012}.jpg").write_bytes(jpeg(n))
    return BenchmarkSource("sugarcrepe", str(tmp_path / "data"), str(tmp_path / "images"))


def run(source: BenchmarkSource, *models: str, **changes: object) -> Evaluation:
    return run_evaluation(models, [source], **{**SETTINGS, **changes})  # type: ignore[arg-type]


def test_each_distinct_image_and_caption_is_encoded_once_and_never_again(source: BenchmarkSource) -> None:
    found = run(source, "a=counting:16")
    first = encoders.opened["a"]
    assert isinstance(first, encoders.CountingEncoder)
    assert len(first.images) == 6
    assert len(first.texts) == len(set(first.texts)) == 12 + 24
    again = run(source, "a=counting:16", execution=Execution("inline", Path("other trials"), 1.0))
    second = encoders.opened["a"]
    assert isinstance(second, encoders.CountingEncoder)
    pd.testing.assert_frame_equal(again.similarities, found.similarities)


@pytest.mark.parametrize("broken", ["*.json", "*/similarities.parquet", "*/metrics.parquet"])
def test_a_trial_of_which_one_file_is_broken_is_run_again_as_a_whole(
    source: BenchmarkSource, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    found = run(source, "a=counting:16")
    (path,) = Path("trials").glob(broken)
    path.write_bytes(path.read_bytes()[:-20])
    capsys.readouterr()
    again = run(source, "a=counting:16")
    pd.testing.assert_frame_equal(again.similarities, found.similarities)
    pd.testing.assert_frame_equal(again.metrics, found.metrics)
    assert capsys.readouterr().err.count("computed again") == 1
    run(source, "a=counting:16")
    assert capsys.readouterr().err == ""


def test_what_is_broken_in_a_store_is_said_before_workers_whom_nobody_hears_use_it(
    source: BenchmarkSource, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(source, "a=counting:16")
    broken = [*Path("store").glob("*/texts/*.parquet"), *Path("store").glob("*/images/*.parquet")]
    for path in broken:
        path.write_bytes(path.read_bytes()[:-20])
    of_other_code = Path("store", "other", "texts", broken[0].name)
    of_other_code.parent.mkdir(parents=True)
    of_other_code.write_bytes(b"")
    of_other_code.parent.with_name("identity.json").write_text("{}")
    capsys.readouterr()

    def stop(*arguments: object, **keywords: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trials, "tune_grid", stop)
    with pytest.raises(KeyboardInterrupt):
        run(source, "a=counting:16", "b=counting:8", execution=RAY)
    said = capsys.readouterr().err
    assert len(broken) == said.count("computed again") == 2
    assert all(str(path) in said and not path.exists() for path in broken)
    assert of_other_code.exists()


def test_edited_code_encodes_everything_anew(
    source: BenchmarkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(source, "a=counting:16")
    monkeypatch.setattr(sharded_map, "compute_code_version", lambda module: "edited")
    monkeypatch.setattr(encoding, "compute_code_version", lambda module, **only: "edited")
    open_model.cache_clear()
    run(source, "a=counting:16")
    encoder = encoders.opened["a"]
    assert isinstance(encoder, encoders.CountingEncoder)
    assert (len(encoder.images), len(encoder.texts)) == (6, 36)


def test_a_second_model_of_the_same_identity_encodes_nothing(source: BenchmarkSource) -> None:
    run(source, "a=counting:16")
    run(source, "b=counting:16")
    second = encoders.opened["b"]
    assert isinstance(second, encoders.CountingEncoder)
    assert (second.images, second.texts) == ([], [])


def test_metrics_have_the_subsets_and_columns_that_are_published(source: BenchmarkSource) -> None:
    metrics = run(source, "a=counting:16").metrics
    check_table(METRICS, metrics, "test")
    assert metrics["subset"].tolist() == ["all", "replace", "replace_obj", "swap", "swap_att", "macro"]
    assert metrics.set_index("subset")["n"].to_dict()["all"] == 24
    assert set(metrics["metric"]) == {"accuracy"}


def test_models_and_benchmarks_are_a_grid_with_one_tracked_run_each(
    source: BenchmarkSource, tmp_path: Path
) -> None:
    found = run(source, "a=counting:16", "b=matching:4")
    assert set(found.metrics["model"]) == {"a", "b"}
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    runs = mlflow.search_runs(experiment_names=["caramel"]).set_index("tags.mlflow.runName")
    assert sorted(runs.index) == ["evaluate a on sugarcrepe", "evaluate b on sugarcrepe"]
    logged = runs.loc["evaluate b on sugarcrepe"]
    value = found.metrics.set_index(["model", "subset"]).loc[("b", "all"), "value"]
    assert logged["metrics.accuracy"] == pytest.approx(value)
    assert logged["params.model"] == "b=matching:4"


def test_ties_are_misses_and_are_counted(source: BenchmarkSource) -> None:
    found = run(source, "b=matching:2")
    rows = found.similarities
    tied = int((rows["s_c0_i0"] == rows["s_c1_i0"]).sum())
    assert tied > 0
    everything = found.metrics.set_index("subset").loc["all"]
    assert everything["ties"] == tied
    assert everything["value"] == pytest.approx((rows["s_c0_i0"] > rows["s_c1_i0"]).mean())


def test_all_missing_and_corrupt_images_are_listed_before_a_model_is_opened(source: BenchmarkSource) -> None:
    Path("images", f"{1:012}.jpg").unlink()
    Path("images", f"{4:012}.jpg").write_bytes(jpeg(4)[:-200])
    with pytest.raises(DataError, match="2 of 6 images are missing or corrupt; nothing was scored") as caught:
        run(source, "a=counting:16")
    assert "000000000001.jpg: missing" in str(caught.value)
    assert "000000000004.jpg: corrupt" in str(caught.value)
    assert encoders.opened == {}


def test_a_model_that_is_shown_no_image_needs_none(source: BenchmarkSource) -> None:
    for path in Path("images").iterdir():
        path.unlink()
    found = run(source, "blind:length")
    assert found.metrics.set_index("subset").loc["all", "n"] == 24
    assert find_problems(["blind:length"], [source]) == []
    assert len(find_problems(["blind:length", "a=counting:16"], [source])) == 1


def test_missing_says_all_at_once_and_loads_nothing(source: BenchmarkSource) -> None:
    assert find_problems(["a=counting:16"], [source]) == []
    Path("images", f"{1:012}.jpg").unlink()
    elsewhere = BenchmarkSource("sugarcrepe_pp", "nowhere", "nowhere")
    lines = find_problems(["a=counting:16"], [source, elsewhere])
    assert len(lines) == 2
    assert "000000000001.jpg: missing" in lines[0]
    assert "folder 'nowhere' does not exist" in lines[1]
    assert encoders.opened == {}


def test_a_limit_scores_the_first_instances_and_needs_only_their_images(source: BenchmarkSource) -> None:
    Path("images", f"{5:012}.jpg").unlink()
    found = run(source, "a=counting:16", limit=5)
    assert found.similarities["instance_id"].tolist() == [f"replace_obj-{n}" for n in range(5)]


def test_what_is_missing_is_asked_of_the_first_instances_alone(source: BenchmarkSource) -> None:
    Path("images", f"{5:012}.jpg").unlink()
    assert find_problems(["a=counting:16"], [source], limit=5) == []
    assert len(find_problems(["a=counting:16"], [source])) == 1


def test_what_is_missing_goes_on_after_an_unknown_family(source: BenchmarkSource) -> None:
    lines = find_problems(["a=unheard:16", "blind:unheard", "blind:length"], [source])
    assert len(lines) == 2
    assert "its family cannot be determined" in lines[0]
    assert "unheard" in lines[1]


def test_models_of_one_name_and_a_benchmark_twice_are_refused_before_any_work(
    source: BenchmarkSource,
) -> None:
    with pytest.raises(ConfigError, match=r"model 'a' is given 2 times.*NAME=SPEC"):
        run(source, "a=counting:16", "a=matching:4")
    with pytest.raises(ConfigError, match="benchmark 'sugarcrepe' is given 2 times"):
        run_evaluation(["a=counting:16"], [source, source], **SETTINGS)  # type: ignore[arg-type]
    assert encoders.opened == {}
    assert len(find_problems(["a=counting:16", "a=matching:4"], [source, source])) == 2


def test_a_model_that_a_benchmark_is_not_for_is_refused_before_any_work(source: BenchmarkSource) -> None:
    with pytest.raises(BackendError, match=r"'text:nowhere' cannot be scored on 'sugarcrepe'.*texts alone"):
        run(source, "a=counting:16", "text:nowhere")
    assert encoders.opened == {}
    assert any(
        "cannot be scored on 'sugarcrepe'" in line for line in find_problems(["text:nowhere"], [source])
    )


def test_the_files_of_a_model_are_hashed_once_for_all_benchmarks(
    source: BenchmarkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    monkeypatch.setattr(evaluating, "hash_content", lambda model: hashed.append(model) or "weights")
    other = BenchmarkSource("sugarcrepe_pp", source.data, source.images)
    for path in Path("data").iterdir():
        rows = json.loads(path.read_text())
        path.write_text(
            json.dumps([{**row, "caption2": f"{n}", "id": n} for n, row in enumerate(rows.values())])
        )
    run_evaluation(["a=counting:16", "b=matching:4"], [source, other], **SETTINGS)  # type: ignore[arg-type]
    assert hashed == ["a=counting:16", "b=matching:4"]


def test_a_process_reads_a_benchmark_once_for_all_models_and_again_once_it_has_changed(
    source: BenchmarkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    original = evaluating.list_image_keys
    monkeypatch.setattr(
        evaluating,
        "list_image_keys",
        lambda *of: read.append("images") or original(*of),  # type: ignore[func-returns-value]
    )
    first = run(source, "a=counting:16", "b=counting:16")
    assert read == ["images"]
    Path("images", f"{0:012}.jpg").write_bytes(jpeg(99))
    second = run(source, "a=counting:16", "b=counting:16")
    assert read == ["images"] * 2
    assert not second.similarities["images_hash"].equals(first.similarities["images_hash"])


def test_changed_candidates_are_ranked_anew(source: BenchmarkSource, tmp_path: Path) -> None:
    """The texts in their order, and the rows, are the same in both; only the pool of the second row is not."""
    folder = tmp_path / "whatsup"
    (folder / "controlled_images").mkdir(parents=True)
    for n in range(2):
        (folder / "controlled_images" / f"{n}_on_table.jpg").write_bytes(jpeg(n))

    def written(second: str) -> pd.DataFrame:
        options = [[f"x{letter}" for letter in letters] for letters in ("abcd", f"ab{second}", "eabc")]
        rows = [
            {"image_path": f"{n % 2}_on_table.jpg", "caption_options": texts}
            for n, texts in enumerate(options)
        ]
        (folder / "controlled_images_dataset.json").write_text(json.dumps(rows))
        return run(BenchmarkSource("whatsup_a", str(folder), str(folder)), "a=counting:16").similarities

    before, after = written("ce"), written("de")
    assert before["n_above"].tolist() != after["n_above"].tolist()
    path = tmp_path / "other trials"
    fresh = run(
        BenchmarkSource("whatsup_a", str(folder), str(folder)),
        "a=counting:16",
        execution=Execution("inline", path, 1.0),
    ).similarities
    pd.testing.assert_frame_equal(after, fresh)


def test_changed_captions_are_scored_anew(source: BenchmarkSource) -> None:
    before = run(source, "a=counting:16").similarities
    path = Path("data", "swap_att.json")
    path.write_text(path.read_text().replace("not swap_att 3", "surely not swap_att 3"))
    after = run(source, "a=counting:16").similarities
    changed = before["s_c1_i0"] != after["s_c1_i0"]
    assert before.loc[changed, "instance_id"].tolist() == ["swap_att-3"]


def test_an_unknown_benchmark_or_family_lists_the_choices(source: BenchmarkSource) -> None:
    with pytest.raises(BackendError, match=r"Unknown benchmark backend 'sugarcreep'.*'sugarcrepe'"):
        run(BenchmarkSource("sugarcreep", "data", "images"), "a=counting:16")
    with pytest.raises(BackendError, match=r"its family cannot be determined.*open_clip"):
        run(source, "a=unheard:16")


@pytest.mark.slow
@pytest.mark.usefixtures("kept_workers")
@pytest.mark.parametrize(
    ("models", "sources", "at_once"), [(1, 4, 2), (5, 3, 2), (2, 1, 8), (4, 4, 4), (3, 2, 1)]
)
def test_trials_that_run_together_are_of_other_models_and_none_is_left_out(
    models: int, sources: int, at_once: int
) -> None:
    order = take_turns(models, sources, at_once)
    assert sorted(order) == list(range(models * sources))
    for start in range(0, models - models % at_once, at_once):
        of_group = order[start * sources : (start + at_once) * sources]
        for place in range(0, len(of_group), at_once):
            assert len({number // sources for number in of_group[place : place + at_once]}) == at_once


def test_ray_gives_the_same_tables_as_one_process(source: BenchmarkSource, clip_folder: Path) -> None:
    spec = f"tiny=open_clip:{clip_folder}"
    inline = run(source, spec)
    alone = run(source, spec, execution=Execution("ray", Path("trials of one"), 1.0), store="store of one")
    pd.testing.assert_frame_equal(alone.similarities, inline.similarities)
    grid = run(
        source,
        spec,
        "again=" + spec.partition("=")[2],
        execution=Execution("ray", Path("trials of two"), 1.0),
    )
    pd.testing.assert_frame_equal(grid.metrics[grid.metrics["model"] == "tiny"], inline.metrics)


def test_each_benchmark_is_read_once_for_all_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, families: None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    names = ("sugarcrepe", "sugarcrepe_pp", "vg_relation", "vg_attribution", "whatsup_a")
    sources = [BenchmarkSource(n, str(write_release(tmp_path / n, n)), str(tmp_path / n)) for n in names]
    for name in names:
        (tmp_path / name / "1.png").write_bytes(jpeg(len(name)))
    reads: list[str] = []
    read = evaluating.read_task

    def count_read(where: BenchmarkSource, limit: int | None = None) -> Task:
        reads.append(where.benchmark)
        return read(where, limit)

    monkeypatch.setattr(evaluating, "read_task", count_read)
    run_evaluation(["a=counting:16", "b=counting:8"], sources, **SETTINGS)  # type: ignore[arg-type]
    assert sorted(reads) == sorted(names)
    run_evaluation(["c=counting:4"], sources, **SETTINGS)  # type: ignore[arg-type]
    assert sorted(reads) == sorted(2 * names), "nothing of an evaluation stays in memory after it"
