"""CLIP, CLIP with a text tower of transformers, and FLAVA are tuned on 40 % and tested on 60 %."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from paper_inputs import COLOURS, write_photograph
from small_transformers import flava_folder
from tiny_clips import build_config, roberta_config

from caramel.config.profiles import read_profile
from caramel.errors import ConfigError
from caramel.evaluation.score_model import compute_live_similarities, load_checked_benchmark
from caramel.interfaces.settings import Compute
from caramel.models.open_clip.checkpoints import save_checkpoint
from caramel.models.open_clip.encoder import ClipEncoder
from caramel.runtime.mlflow import tracking
from caramel.training.recipes import sugarcrepe_pp_trials as trials
from caramel.training.recipes.sugarcrepe_pp_finetune import TuningConfig, build_tuning_config

ROOT = Path(__file__).parents[3]
SUBSETS = ("replace_obj", "swap_att")


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """SugarCrepe++ as it is published, with 24 rows in two subsets on 24 images."""
    folder, rng = tmp_path / "sugarcrepe_pp", np.random.default_rng(0)
    folder.mkdir()
    for subset in SUBSETS:
        rows = []
        for number in range(12):
            name, (one, other) = f"{subset}{number}.jpg", rng.choice(COLOURS, 2, replace=False)
            write_photograph(folder / name, rng, str(one))
            texts = {"caption": f"a {one} cat near a {other} dog", "caption2": f"the cat is {one}"}
            rows.append(
                {"id": number, "filename": name, **texts, "negative_caption": f"a {other} cat {number}"}
            )
        (folder / f"{subset}.json").write_text(json.dumps(rows))
    return folder


@pytest.fixture
def roberta(tmp_path: Path) -> Path:
    """A CLIP with a text tower of transformers, as open_clip's XLM-RoBERTa models have it."""
    config = roberta_config(tmp_path)
    model, whole = build_config(config), {"model_cfg": config}
    return save_checkpoint(tmp_path / "roberta", model, config=whole, vocabulary=None, card={})


def settings(**changed: Any) -> TuningConfig:
    section = read_profile("sugarcrepe_pp", {}, ROOT)[1].finetune_sugarcrepe_pp
    assert section is not None
    given = section.model_dump(exclude={"models", "seeds", "data", "images"})
    quick = {"epochs": 1, "rows": 4, "lr": 1e-3, "lora_lr": 1e-2, "warmup_steps": 0}
    machine = {"compute": Compute("cpu", "fp32"), "num_workers": 0}
    return build_tuning_config(**{**given, **quick, **machine, **changed})


def tune(models: list[str], release: Path, folder: Path, **changed: Any) -> pd.DataFrame:
    on = load_checked_benchmark("sugarcrepe_pp", release, None, None, {})
    return trials.finetune_sugarcrepe_pp(
        models,
        [1, 2],
        on.task,
        on.keys,
        config=settings(**changed),
        score=lambda encoder: compute_live_similarities(encoder, on, 8),
        measure=lambda rows: {"rows": float(len(rows))},
        folder=folder,
    )


def test_each_model_is_scored_frozen_tuned_and_with_lora_on_the_rows_that_no_training_saw(
    clip_folder: Path, roberta: Path, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flava = flava_folder(tmp_path / "flava")
    models = [f"clip=open_clip:{clip_folder}", f"xlmr=open_clip:{roberta}", f"flava=dual:{flava}"]
    rows = tune(models, release, tmp_path / "runs")
    names = {
        f"{m}/{v}-{s}" for m in ("clip", "xlmr", "flava") for v in ("frozen", "full", "lora") for s in (1, 2)
    }
    assert set(rows["model"]) == names
    assert {name for names in rows["subsets"] for name in names} >= {f"test60/{s}" for s in SUBSETS}
    assert all(name.startswith("test60/") for names in rows["subsets"] for name in names)
    tested = rows.groupby("model")["instance_id"].apply(frozenset)
    for seed in (1, 2):
        same = {tested[name] for name in names if name.endswith(f"-{seed}")}
        assert len(same) == 1
        assert len(next(iter(same))) in range(13, 17)
    scores = {name: of["s_c0_i0"].to_numpy() for name, of in rows.groupby("model")}
    for model in ("clip", "xlmr", "flava"):
        for variant in ("full", "lora"):
            assert not np.allclose(scores[f"{model}/{variant}-1"], scores[f"{model}/frozen-1"])

    monkeypatch.setattr(trials, "train_model", None)  # every run is stored: nothing is trained again
    assert tune(models, release, tmp_path / "runs").equals(rows)
    with tracking.open_store(tmp_path) as (client, experiment):
        assert len(client.search_runs([experiment])) == 3 * 2 * 2


def test_a_killed_training_goes_on_with_another_number_of_workers(
    clip_folder: Path, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*args: Any, **settings: Any) -> None:
        raise KeyError("killed")

    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(trials, "train_model", kill)
        with pytest.raises(KeyError, match="killed"):
            tune([f"clip=open_clip:{clip_folder}"], release, tmp_path / "runs")
    tune([f"clip=open_clip:{clip_folder}"], release, tmp_path / "runs", num_workers=1)
    with tracking.open_store(tmp_path) as (client, experiment):
        runs = client.search_runs([experiment])
    assert [run.info.status for run in runs] == ["FINISHED"] * 4  # full and LoRA with two seeds


@pytest.mark.parametrize("family", ["clip", "roberta", "flava"])
def test_the_targets_of_lora_reach_attention_and_mlps_of_both_towers(
    family: str, clip_folder: Path, roberta: Path, tmp_path: Path
) -> None:
    spec = {
        "clip": lambda: f"open_clip:{clip_folder}",
        "roberta": lambda: f"open_clip:{roberta}",
        "flava": lambda: f"dual:{flava_folder(tmp_path / 'flava')}",
    }[family]()
    clip, _ = trials.load_trainable(spec, "cpu")
    lora = settings().training.scope.lora
    assert lora is not None
    targets = trials._match_targets(lora, clip.model).targets
    reached = [
        n for n, v in clip.model.named_parameters() if v.ndim > 1 and any(fnmatch(n, t) for t in targets)
    ]
    text = [name for name in reached if not name.startswith(("visual.", "flava.image_model."))]
    assert any("query" in name or "in_proj" in name for name in text)
    assert any("intermediate" in name or "mlp" in name for name in text)
    assert not any("embed" in name or "pooler" in name for name in reached)
    with pytest.raises(ConfigError, match="reach no weight of the text tower"):
        trials._match_targets(
            type(lora)(2, 2.0, ("*image_model*query.weight", "visual.*mlp*weight")), clip.model
        )


def test_flava_in_training_has_the_vectors_of_its_evaluation(release: Path, tmp_path: Path) -> None:
    clip, encoder = trials.load_trainable(f"dual:{flava_folder(tmp_path / 'flava')}", "cpu")
    clip.model.eval()
    trained = ClipEncoder(clip, "cpu", "fp32", "same")
    files = [path.read_bytes() for path in sorted(release.glob("*.jpg"))]
    texts = ["a cat", "the cat is near a dog", ""]
    np.testing.assert_allclose(trained.encode_images(files, 4), encoder.encode_images(files, 4), atol=1e-5)
    np.testing.assert_allclose(trained.encode_texts(texts, 4), encoder.encode_texts(texts, 4), atol=1e-5)


def test_a_model_of_another_family_is_refused() -> None:
    with pytest.raises(ConfigError, match="Models of open_clip and FLAVA"):
        trials.load_trainable("blind:length", "cpu")
