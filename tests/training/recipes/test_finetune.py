"""The trials of the fine-tuning log to the runs that the process which drives has made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tiny_clips
import torch
from few_rows import few_rows, tuned

from caramel.errors import BackendError, ConfigError, DataError
from caramel.models.open_clip.checkpoints import load_checkpoint, save_checkpoint
from caramel.runtime.mlflow import tracking
from caramel.schemas.io import read_table, write_table
from caramel.schemas.training import TRAINING
from caramel.training.recipes import finetune


@pytest.fixture
def rows(drawn_world: Any, world: Any, tmp_path: Path) -> str:
    return few_rows(drawn_world, world, tmp_path)


def changed(path: str, change: Any) -> None:
    write_table(TRAINING, change(read_table(TRAINING, path)), path)


def test_each_trial_logs_to_the_run_that_was_made_before_it(
    rows: str, clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    own = {"ce_clip": {"weights": {"imc": 0.7}, "steps": 1, "negatives": 3}}
    curves, mixtures, *_ = tuned(
        ["trohn_img", "ce_clip"], rows, clip_folder, tmp_path, settings={"negatives": 2}, overrides=own
    )
    assert set(curves["model"]) == {"trohn_img-3", "ce_clip-3"}
    assert mixtures.empty
    client = mlflow.MlflowClient(tracking.get_tracking_uri(tmp_path))
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
    found = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(found) == {"finetune trohn_img-3", "finetune ce_clip-3"}
    for run in found.values():
        assert run.info.status == "FINISHED"
        assert {"seed": "3", "train_rows": "20"}.items() <= run.data.params.items()
        assert {"loss", "group", "kept_step"} <= set(run.data.metrics)
        assert {"stage": "finetune", "seed": "3"}.items() <= run.data.tags.items()
    params = found["finetune ce_clip-3"].data.params
    mine = {"negatives": "3", "weight_imc": "0.7", "weight_cmr": "0.2", "steps": "1", "batch_size": "8"}
    assert mine.items() <= params.items()
    assert found["finetune trohn_img-3"].data.params.items() >= {"negatives": "2", "steps": "2"}.items()
    assert curves.groupby("model")["step"].max().to_dict() == {"trohn_img-3": 2, "ce_clip-3": 1}


def test_epochs_are_passes_through_the_rows_of_each_method_and_measured_in_each(
    rows: str, clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    own = {"negclip": {"batch_size": 16}, "trohn_img": {"epochs": 1, "evals_per_epoch": 2}}
    curves, *_ = tuned(
        ["infonce", "negclip", "trohn_img"],
        rows,
        clip_folder,
        tmp_path,
        overrides=own,
        settings={"epochs": 2},
    )
    steps = curves.groupby("model")["step"].unique().map(list).to_dict()
    # Of 20 rows: 8 of a caption each; 4 with a negative, and 4 neighbours of theirs; 4 with a negative.
    assert steps == {"infonce-3": [2, 4], "negclip-3": [5, 10], "trohn_img-3": [2, 4, 5]}
    client = mlflow.MlflowClient(tracking.get_tracking_uri(tmp_path))
    found = client.search_runs([client.get_experiment_by_name(tracking.EXPERIMENT).experiment_id])
    runs = {run.data.tags["variant"]: run.data.params for run in found}
    assert {name: (p["steps"], p["checkpoint_every"]) for name, p in runs.items()} == {
        "infonce": ("4", "2"), "negclip": ("10", "5"), "trohn_img": ("5", "2"),
    }  # fmt: skip


def test_a_warm_up_that_outlasts_the_training_is_refused_before_anything_runs(
    rows: str, clip_folder: Path, tmp_path: Path
) -> None:
    said = r"finetune.warmup_steps = 5: method 'infonce' trains for 4 steps \(epochs: 2, rows: 20\)"
    with pytest.raises(ConfigError, match=said):
        tuned(["infonce"], rows, clip_folder, tmp_path, settings={"epochs": 2, "warmup_steps": 5})


@pytest.mark.parametrize(
    ("variant", "change", "said"),
    [
        (
            "read",
            lambda t: t,
            r"None of 20 rows has a caption2 .*'read'.*Remove 'read' from finetune.variants",
        ),
        (
            "trohn_img",
            lambda t: t.assign(
                negative_image_ids=[
                    names if row > 6 else [None] * len(names)
                    for row, names in enumerate(t["negative_image_ids"])
                ]
            ),
            r"(?s)7 of 20 rows have no negative_image_ids, which method 'trohn_img' trains on:.*Remove 'trohn_img' from",
        ),
        (
            "degla",
            lambda t: t.assign(subtypes=[["add_obj"], *t["subtypes"][1:]]),
            r"(?s)1 of 20 rows have lists of different lengths in negative_captions, .*with empty entries",
        ),
        ("infonce", lambda t: t.assign(split="val"), "no row to train on"),
    ],
)
def test_rows_that_lack_what_a_variant_trains_on_are_an_error_before_the_first_trial(
    variant: str, change: Any, said: str, rows: str, clip_folder: Path, tmp_path: Path
) -> None:
    changed(rows, change)
    with pytest.raises(DataError, match=said):
        tuned(["siglip", variant], rows, clip_folder, tmp_path)
    assert not (tmp_path / "trials").exists()


def test_a_base_without_patches_is_no_base_for_a_method_on_patches(rows: str, tmp_path: Path) -> None:
    config = {"model_cfg": tiny_clips.CONFIGS["resnet"]}
    folder = save_checkpoint(
        tmp_path / "base", tiny_clips.build("resnet"), config=config, vocabulary=None, card={}
    )
    with pytest.raises(
        BackendError, match=r"'fsc_clip' trains on patches .*image tower \(ModifiedResNet\) is not a plain"
    ):
        tuned(["fsc_clip"], rows, folder, tmp_path)


def test_without_negative_images_the_weights_are_kept_by_accuracy(
    rows: str, clip_folder: Path, tmp_path: Path
) -> None:
    changed(rows, lambda t: t.assign(negative_image_ids=[[None] * len(s) for s in t["subtypes"]]))
    curves, mixtures, *_ = tuned(["siglip"], rows, clip_folder, tmp_path)
    assert set(curves["metric"]) == {"loss", "retrieval", "accuracy"}
    assert mixtures.empty
    card = json.loads((tmp_path / "out" / "siglip-3" / "caramel.json").read_text())
    assert card["kept"] == "best accuracy on val"
    model = load_checkpoint(tmp_path / "out" / "siglip-3").model
    assert model.logit_bias.item() == pytest.approx(-10, abs=0.1)
    assert model.logit_scale.exp().item() == pytest.approx(10, rel=0.01)


def test_the_last_weights_are_kept_where_that_is_set_and_the_earliest_of_equal_ones_else(
    rows: str, clip_folder: Path, tmp_path: Path
) -> None:
    for keep, step, said in (("best", 1, "best group on val"), ("last", 3, "last step")):
        folder = tmp_path / keep
        folder.mkdir()
        for name in ("set.parquet", "images.parquet"):
            shutil.copy(tmp_path / name, folder / name)
        shutil.copytree(tmp_path / "images", folder / "images", dirs_exist_ok=True)
        settings = {"keep": keep, "steps": 3, "checkpoint_every": 1, "lr": 1e-12}  # nothing is learnt
        curves, *_ = tuned(["trohn_img"], str(folder / "set.parquet"), clip_folder, folder, settings)
        assert set(curves.loc[curves["kept"], "step"]) == {step}
        card = json.loads((folder / "out" / "trohn_img-3" / "caramel.json").read_text())
        assert (card["step"], card["kept"]) == (step, said)


def test_the_best_mixture_with_the_base_is_kept_and_the_curve_is_told(
    rows: str, clip_folder: Path, tmp_path: Path
) -> None:
    mix = [0.0, 0.5, 1.0]
    _, mixtures, *_ = tuned(["trohn_img"], rows, clip_folder, tmp_path, settings={"wise_ft_alphas": mix})
    assert list(mixtures) == ["model", "alpha", "metric", "value", "selected"]
    groups = mixtures[mixtures["metric"] == "group"]
    assert groups["alpha"].tolist() == mix
    (kept,) = groups.loc[groups["selected"], "alpha"]
    assert kept == groups["alpha"].iloc[int(groups["value"].argmax())]
    card = json.loads((tmp_path / "out" / "trohn_img-3" / "caramel.json").read_text())
    assert card["mixed"] == kept
    base, found = (load_checkpoint(f).model for f in (clip_folder, tmp_path / "out" / "trohn_img-3"))
    same = all(torch.equal(v, found.state_dict()[n]) for n, v in base.state_dict().items())
    assert same == (kept == 0.0)


def test_a_variant_that_two_processes_train_has_the_curve_that_one_gives_it(
    rows: str, clip_folder: Path, tmp_path: Path
) -> None:
    one = tuned(["degla"], rows, clip_folder, tmp_path).curves
    shutil.rmtree(tmp_path / "out")
    two = tuned(["degla"], rows, clip_folder, tmp_path, nproc=2).curves
    assert one["metric"].tolist() == two["metric"].tolist()
    assert two["value"].tolist() == pytest.approx(one["value"].tolist(), rel=1e-4)


@pytest.mark.parametrize(
    ("variant", "processes", "said"),
    [
        (
            "infonce",
            3,
            r"finetune.nproc = 3: a batch of 8 captions has 8 rows with method 'infonce', and .*nproc to one of: 1, 2, 4, 8",
        ),
        (
            "trohn_text",
            8,
            r"a batch of 8 captions has 4 rows with method 'trohn_text'.*nproc to one of: 1, 2, 4\.",
        ),
    ],
)
def test_a_batch_that_processes_cannot_share_is_an_error_before_the_first_trial(
    variant: str, processes: int, said: str, rows: str, clip_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        tuned(
            ["siglip", variant] if variant == "trohn_text" else [variant],
            rows,
            clip_folder,
            tmp_path,
            nproc=processes,
        )
    assert not (tmp_path / "trials").exists()


SEARCH = {"space": {"trohn_text": {"lr": [1e-5, 1e-2]}}, "draws": None, "seed": 0, "seeds": [3], "asha": None}


def test_each_search_of_other_params_is_a_run_whose_table_is_what_it_found_last(
    rows: str, clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    found = []
    for seed in (0, 0, 1):  # of draws: there are none, so that the points are the same
        found.append(tuned(["infonce"], rows, clip_folder, tmp_path, search={**SEARCH, "seed": seed}))
        shutil.rmtree(tmp_path / "out")
    client = mlflow.MlflowClient(tracking.get_tracking_uri(tmp_path))
    runs = client.search_runs([client.get_experiment_by_name(tracking.EXPERIMENT).experiment_id])
    searches = {run.data.params["seed"]: run for run in runs if run.info.run_name == "finetune search"}
    assert {*searches} == {"0", "1"}
    assert len(runs) == 2 + 3  # two points and infonce, of the second and third time nothing was run
    for run in searches.values():
        table = pd.read_csv(client.download_artifacts(run.info.run_id, "searched.csv", str(tmp_path)))
        expected = found[-1].searched.drop(columns="stopped")
        pd.testing.assert_frame_equal(table.drop(columns="stopped"), expected)
        assert table["stopped"].isna().all()


def test_a_search_that_fails_is_a_failed_run(
    rows: str, clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    def fail(*args: Any, **settings: Any) -> None:
        raise KeyError("no trial")

    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    monkeypatch.setattr(finetune, "run_search", fail)
    with pytest.raises(KeyError, match="no trial"):
        tuned(["infonce"], rows, clip_folder, tmp_path, search=SEARCH)
    client = mlflow.MlflowClient(tracking.get_tracking_uri(tmp_path))
    (run,) = client.search_runs([client.get_experiment_by_name(tracking.EXPERIMENT).experiment_id])
    assert (run.info.run_name, run.info.status) == ("finetune search", "FAILED")


def test_a_search_takes_the_best_point_and_what_has_run_is_not_run_again(
    rows: str, clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    own = {"trohn_text": {"batch_size": 10}}
    found = tuned(["infonce", "trohn_text"], rows, clip_folder, tmp_path, overrides=own, search=SEARCH)
    values = found.searched.set_index("point")["value"]
    (chosen,) = found.searched.loc[found.searched["chosen"], "point"]
    assert chosen == (1 if values[1] >= values[2] else 2)
    assert found.overrides == {"trohn_text": {"batch_size": 10, "lr": [1e-5, 1e-2][chosen - 1]}}
    assert set(found.curves["model"]) == {"infonce-3", "trohn_text-3"}
    kept = found.curves[found.curves["kept"] & (found.curves["metric"] == "group")]
    assert kept.loc[kept["model"] == "trohn_text-3", "value"].tolist() == [values[chosen]]
    client = mlflow.MlflowClient(tracking.get_tracking_uri(tmp_path))
    runs = client.search_runs([client.get_experiment_by_name(tracking.EXPERIMENT).experiment_id])
    (parent,) = [run for run in runs if run.info.run_name == "finetune search"]
    assert parent.info.status == "FINISHED"
    assert {each.path for each in client.list_artifacts(parent.info.run_id)} == {
        "overrides.json",
        "searched.csv",
    }
    trials = [run for run in runs if run is not parent]
    assert sorted(run.data.params["lr"] for run in trials) == [
        "0.001",
        "0.01",
        "1e-05",
    ]  # the chosen one once
    assert {run.data.tags["mlflow.parentRunId"] for run in trials} == {parent.info.run_id}


@pytest.mark.parametrize(
    ("change", "changes", "said"),
    [
        (
            lambda t: t.assign(split="train"),
            {},
            "selects settings on the rows of the val split, and the val split has no rows",
        ),
        (
            lambda t: t,
            {"asha": {"first": 1, "factor": 2}},
            "finetune.search.asha.first = 1: the number of checkpoints of method 'infonce' is 1,",
        ),
        (
            lambda t: t,
            {"space": {"infonce": {"warmup_steps": [1, 3]}}},
            "finetune.warmup_steps = 3: method 'infonce' trains for 2 steps",
        ),
    ],
)
def test_a_search_that_cannot_be_made_is_refused_before_the_first_trial(
    change: Any, changes: dict[str, Any], said: str, rows: str, clip_folder: Path, tmp_path: Path
) -> None:
    changed(rows, change)
    search = {**SEARCH, "space": {"infonce": {"lr": [0.1]}}}
    with pytest.raises(ConfigError, match=said):
        tuned(["infonce"], rows, clip_folder, tmp_path, search={**search, **changes})
    assert not (tmp_path / "trials").exists()


def drop_val_images(table: Any) -> Any:
    """Return a table whose val rows have no image of a negative."""
    val = table["split"] == "val"
    without = [[None] * len(names) for names in table.loc[val, "negative_image_ids"]]
    images = table["negative_image_ids"].copy()
    images[val] = pd.Series(without, index=images.index[val], dtype=object)
    return table.assign(negative_image_ids=images)


def test_without_val_rows_that_the_metric_can_use_the_last_weights_are_kept_and_the_card_says_so(
    rows: str, clip_folder: Path, tmp_path: Path
) -> None:
    changed(rows, drop_val_images)
    settings = {"rows": "negatives", "selection_metric": "contrastive"}
    found = tuned(["trohn_img"], rows, clip_folder, tmp_path, settings)
    card = json.loads((tmp_path / "out" / "trohn_img-3" / "caramel.json").read_text())
    assert card["kept"] == "last step"
    kept = found.curves.loc[found.curves["kept"], "step"]
    assert set(kept) == {found.curves["step"].max()}


def test_a_search_whose_metric_no_val_row_can_give_is_refused_before_the_first_trial(
    rows: str, clip_folder: Path, tmp_path: Path
) -> None:
    changed(rows, drop_val_images)
    settings = {"rows": "negatives", "selection_metric": "contrastive"}
    search = {**SEARCH, "space": {"trohn_img": {"lr": [1e-5, 1e-2]}}}
    with pytest.raises(
        ConfigError, match=r"search\.space\.trohn_img: settings are selected by 'contrastive' on val"
    ):
        tuned(["trohn_img"], rows, clip_folder, tmp_path, settings, search=search)
    assert not (tmp_path / "trials").exists()


@pytest.mark.parametrize(("variant", "metric"), [("infonce", "group"), ("trohn_text", "contrastive")])
def test_val_pairs_without_a_negative_do_not_stop_a_training_on_pairs(
    variant: str, metric: str, rows: str, clip_folder: Path, tmp_path: Path
) -> None:
    def empty_one(table: Any) -> Any:
        lists = ["negative_image_ids", "negative_captions", "subtypes"]
        last = table.index[-1]
        for name in lists:
            table.at[last, name] = []
        return table

    changed(rows, empty_one)
    settings = {"selection_metric": metric}
    assert not tuned([variant], rows, clip_folder, tmp_path, settings).curves.empty
