"""The whole graph, as a user runs it."""

import json
import re
import subprocess
from pathlib import Path

import datasets
import mlcroissant
import pandas as pd
import pytest
from project import Project
from remote_projects import run
from s3_server import BUCKET

from caramel.io.safe_yaml import read_yaml
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.contracts import Table
from caramel.schemas.evaluation import METRICS
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table, write_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.schemas.training import TRAINING

pytestmark = pytest.mark.slow

STAGES = [
    "scenes",
    "train_writer",
    "negatives",
    "scores",
    "refine",
    "validate_captions",
    "select_negatives",
    "train_generator",
    "pretrain",
    "synthesize",
    "filter_images",
    "assemble",
    "image_scores",
    "validate_benchmark",
    "finetune",
    "finetune_sugarcrepe_pp",
    "evaluate",
    "report",
]


def read(smoke, table: Table, path: str) -> pd.DataFrame:
    return read_table(table, smoke.folder / "data" / path)


def test_every_stage_ran_and_is_locked(smoke) -> None:
    assert list(read_yaml(smoke.folder / "dvc.yaml", "")["stages"]) == STAGES
    assert set(read_yaml(smoke.folder / "dvc.lock", "")["stages"]) == set(
        STAGES
    )  # a new stage is written at its end
    timings = (smoke.folder / "work" / "timings.jsonl").read_text().splitlines()
    assert {json.loads(line)["stage"] for line in timings} == set(STAGES)


def test_a_second_repro_has_nothing_to_do(smoke) -> None:
    said = smoke.run("dvc", "repro").stdout
    assert said.count("didn't change, skipping") == len(STAGES)


def test_no_image_stands_in_two_splits(smoke) -> None:
    instances = read(smoke, INSTANCES, "assemble/instances.parquet")
    training = read(smoke, TRAINING, "assemble/training.parquet")
    training = training.assign(negative_image_id=training["negative_image_ids"].str[0])
    assert training["negative_image_id"].notna().all()
    assert training["negative_captions"].str.len().max() > 1
    rows = pd.concat([instances, training])
    uses = pd.concat(
        [
            rows[["image_id", "split"]],
            rows[["negative_image_id", "split"]].set_axis(["image_id", "split"], axis=1),
        ]
    )
    assert uses.groupby("image_id")["split"].nunique().max() == 1
    pairs = read(smoke, PAIRS, "scenes/pairs.parquet")
    assert pairs.groupby("scene")["split"].nunique().max() == 1


def test_every_row_can_be_followed_back_to_its_source(smoke) -> None:
    instances = read(smoke, INSTANCES, "assemble/instances.parquet")
    choices = read(smoke, CHOICES, "filter_images/choices.parquet")
    candidates = read(smoke, CANDIDATES, "synthesize/candidates.parquet")
    negatives = read(smoke, NEGATIVES, "refine/negatives.parquet")
    pairs = read(smoke, PAIRS, "scenes/pairs.parquet")
    chosen = choices[choices["chosen_by"].notna()].set_index("negative_id")
    assert len(instances) > 0
    for row in instances.itertuples():
        assert chosen.loc[row.instance_id, "image_id"] == row.negative_image_id
        candidate = candidates[candidates["image_id"] == row.negative_image_id]
        assert candidate["prompt"].tolist() == [row.negative_caption]
        negative = negatives[negatives["negative_id"] == row.instance_id]
        assert pairs["pair_id"].isin(negative["pair_id"]).any()


def test_rows_are_kept_or_rejected_never_lost(smoke) -> None:
    written = read(smoke, NEGATIVES, "negatives/negatives.parquet")
    kept = read(smoke, NEGATIVES, "refine/negatives.parquet")
    rejects = read(smoke, REJECTS, "refine/rejects.parquet")
    assert len(written) == len(kept) + rejects["id"].isin(written["negative_id"]).sum()
    drawn = read(smoke, CANDIDATES, "synthesize/candidates.parquet")["negative_id"].unique()
    left = read(smoke, REJECTS, "synthesize/rejects.parquet")
    assert sorted([*drawn, *left["id"]]) == sorted(kept["negative_id"])
    choices = read(smoke, CHOICES, "filter_images/choices.parquet").dropna(subset="chosen_by")
    unfit = read(smoke, REJECTS, "filter_images/rejects.parquet")
    assert sorted([*choices["negative_id"], *unfit["id"]]) == sorted(drawn)


def test_models_are_scored_in_both_directions_with_intervals(smoke) -> None:
    metrics = read(smoke, METRICS, "evaluate/metrics.parquet")
    assert {"base", "infonce-11", "trohn_text-11", "trohn_img-11"} == set(metrics["model"])
    assert {"accuracy", "i2t", "t2i", "group", "i_pos2t", "t_neg2i", "itt", "tot"} <= set(metrics["metric"])
    scored = metrics.dropna(subset=["value", "ci_low"])
    assert (scored["ci_low"] <= scored["value"]).all()
    assert (scored["value"] <= scored["ci_high"]).all()


def test_every_training_and_evaluation_is_a_tracked_run_with_its_data_version(smoke) -> None:
    import mlflow

    from caramel.runtime.mlflow.tracking import EXPERIMENT, PARENT, get_tracking_uri

    client = mlflow.MlflowClient(get_tracking_uri(smoke.folder))
    experiment = client.get_experiment_by_name(EXPERIMENT)
    found = client.search_runs([experiment.experiment_id], max_results=100)
    parents = {run.info.run_id: run.data.tags["parent_of"] for run in found if "parent_of" in run.data.tags}
    assert sorted(parents.values()) == ["evaluate", "finetune", "pretrain", "train_generator"]
    runs = [run for run in found if run.info.run_id not in parents]
    above = {run.info.run_id: run for run in runs if run.data.tags.get("level") == "variant"}
    for each in runs:
        parent = each.data.tags[PARENT]
        if parent in above:  # the variant's, of all its seeds
            assert above[parent].data.tags["variant"] == each.data.tags["variant"]
            parent = above[parent].data.tags[PARENT]
        assert each.data.tags["stage"] == parents[parent]
    names = sorted(run.info.run_name for run in runs)
    models = ["base", "infonce-11", "trohn_text-11", "trohn_img-11"]
    tuned = [f"finetune {m}" for m in models[1:]]
    forms = ("", " on instances_source", " on held_out_retrieval", " on world_classes")
    scored = [f"evaluate {m}{form}" for m in models for form in forms]
    scored += [f"evaluate {m.removesuffix('-11')}" for m in models[1:]]
    scored += ["retained", "detectors on instances", "detectors on instances_source", "detectors on planted"]
    assert names == sorted(["pretrain", "train_generator", *tuned, *scored])
    assert all(run.info.status == "FINISHED" for run in runs)
    assert all(run.inputs.dataset_inputs and run.data.params and run.data.metrics for run in runs)
    assert all(client.list_artifacts(run.info.run_id) for run in runs)


def test_dvc_shows_the_figures_of_the_run_in_one_page(smoke, tmp_path) -> None:
    smoke.run("dvc", "plots", "show", "--out", str(tmp_path))
    page = (tmp_path / "index.html").read_text()
    for name in ("curves_base", "curves_finetune", "subtypes", "yield"):
        (shown,) = tmp_path.rglob(f"*_{name}.png")
        assert shown.name in page


def test_the_report_stands_alone(smoke) -> None:
    page = (smoke.folder / "data" / "report" / "report.html").read_text().replace("<wbr>", "")
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:|#|\.\./\.\./work/data_docs/)""", page)
    for word in ("refine", "trohn_img", "no relation in the caption"):
        assert word in page


def test_a_pin_verifies_until_a_table_changes(smoke, tmp_path) -> None:
    said = smoke.run("caramel", "pin", "v1").stdout
    assert "@misc" in said
    assert smoke.run("caramel", "verify", "v1").returncode == 0
    other = smoke.clone(tmp_path / "other")
    path = other.folder / "data" / "refine" / "pairs.parquet"
    pairs = read_table(PAIRS, path)
    write_table(PAIRS, pairs.assign(caption=pairs["caption"] + " Really."), path)
    done = other.run("caramel", "verify", "v1", check=False)
    assert done.returncode == 1
    assert "data/refine/pairs.parquet" in done.stdout + done.stderr


def test_who_has_the_git_url_alone_gets_the_data_and_the_figures(smoke, tmp_path, s3) -> None:
    smoke.run("caramel", "pin", "v1")
    remote = (
        f"[core]\n    remote = store\n['remote \"store\"']\n    url = s3://{BUCKET}/smoke\n"
        f"    endpointurl = {s3.url}\n    verify = true\n"
    )
    local = smoke.folder / ".dvc" / "config.local"
    local.write_text(remote, encoding="utf-8")
    try:
        pushed = subprocess.run(
            ["dvc", "push", "-q"], cwd=smoke.folder, env={**smoke.environment, **s3.writer}, check=False
        )
        assert not pushed.returncode
    finally:
        local.unlink()
    paper = tmp_path / "paper"
    for name, text in {
        "pins/v1.json": (smoke.folder / "pins/v1.json").read_text(),
        ".dvc/config": remote,
    }.items():
        (paper / name).parent.mkdir(parents=True)
        (paper / name).write_text(text, encoding="utf-8")
    run("git", "init", "-q", root=paper)
    run("git", "add", "-A", root=paper)
    run("git", "commit", "-qm", "Pin", root=paper)
    reader = Project(tmp_path)
    reader.environment |= s3.reader
    said = reader.run(
        "caramel", "get", f"file://{paper}/.git@v1", "--out", "v1", "--credentials", s3.url
    ).stdout
    assert said.startswith("Version v1 (commit ")
    got = Project(tmp_path / "v1")
    said = got.run("caramel", "verify", "v1", "--deep").stdout
    assert "The data set on disk is version v1." in said
    assert "equals the table recomputed from its similarities, to the last digit" in said
    got.run("caramel", "release", "v1", "--out", "release", "--no-audit")
    made = Path(got.folder, "release")
    rows = read(smoke, INSTANCES, "assemble/instances.parquet")
    rows = rows[rows["split"] == "test"].reset_index(drop=True)
    released = datasets.load_dataset(str(made), "instances", split="test", cache_dir=str(tmp_path / "cache"))
    texts = ["instance_id", "caption", "negative_caption"]
    pd.testing.assert_frame_equal(released.to_pandas()[texts], rows[texts], check_dtype=False)
    records = mlcroissant.Dataset(str(made / "croissant.json")).records("instances")
    told = {record["instances/instance_id"]: record["instances/caption"] for record in records}
    assert {told[name.encode()].decode() for name in rows["instance_id"]} == {*rows["caption"]}


def test_text_tables_are_rebuilt_to_the_same_bytes(smoke, tmp_path) -> None:
    """Also with other vector instructions and another number of threads."""
    again = smoke.clone(tmp_path / "again")
    again.environment |= {
        "OMP_NUM_THREADS": "2" if smoke.environment["OMP_NUM_THREADS"] == "1" else "1",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX",
    }
    stages = ("scenes", "negatives", "scores", "refine")
    again.stages(*stages)
    for stage in stages:
        for path in sorted((smoke.folder / "data" / stage).glob("*.parquet")):
            rebuilt = again.folder / "data" / stage / path.name
            assert rebuilt.read_bytes() == path.read_bytes(), path


def test_a_broken_gate_stops_the_pipeline_and_nothing_after_it_runs(smoke, tmp_path) -> None:
    broken = smoke.clone(tmp_path / "broken")
    path = broken.folder / "data" / "refine" / "negatives.parquet"
    rows = read_table(NEGATIVES, path)
    captions = read_table(PAIRS, broken.folder / "data" / "refine" / "pairs.parquet")
    same = rows["pair_id"].map(captions.set_index("pair_id")["caption"])
    some = rows.index < 7
    write_table(NEGATIVES, rows.assign(negative_caption=rows["negative_caption"].where(~some, same)), path)
    done = broken.stage("validate_captions", check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "differ" in done.stderr
    assert "7 of" in done.stderr
