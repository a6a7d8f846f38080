"""40 % of SugarCrepe++ train and 60 % are tested, and no picture does both."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from training_settings import contrastive

from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import BENCHMARKS
from caramel.training.data.batch import count_rows_per_step
from caramel.training.data.examples import Examples
from caramel.training.recipes import sugarcrepe_pp_finetune
from caramel.training.recipes.sugarcrepe_pp_finetune import SHARE, select_training_rows, train_model

FIVE = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
SCRIPT = Path(__file__).parents[3] / "bench" / "forty_sixty.py"
rows = st.lists(st.tuples(st.integers(0, 40), st.sampled_from(FIVE)), min_size=1, max_size=120)


@settings(max_examples=50)
@given(rows=rows, seed=st.integers(0, 1000), order=st.randoms())
def test_no_image_is_on_both_sides_and_the_order_of_the_rows_changes_nothing(
    rows: list[tuple[int, str]], seed: int, order: Any
) -> None:
    images, subsets = zip(*rows, strict=True)
    chosen = select_training_rows(images, subsets, seed=seed)
    assert not {i for i, c in zip(images, chosen, strict=True) if c} & {
        i for i, c in zip(images, chosen, strict=True) if not c
    }
    turned = order.sample(range(len(rows)), len(rows))
    again = select_training_rows([images[i] for i in turned], [subsets[i] for i in turned], seed=seed)
    assert again.tolist() == chosen[turned].tolist()


def test_of_each_subset_two_fifths_train_and_another_seed_takes_others() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 900, size=2000).tolist()
    subsets = [FIVE[i] for i in rng.integers(0, 5, size=2000)]
    taken = [select_training_rows(images, subsets, seed=seed) for seed in range(5)]
    for chosen in taken:
        counts = Counter(s for s, c in zip(subsets, chosen, strict=True) if c)
        for name in FIVE:
            assert counts[name] / subsets.count(name) == pytest.approx(SHARE, abs=0.06)
    assert all((taken[0] != other).any() for other in taken[1:])


def test_an_image_alone_in_its_subsets_may_train_or_be_tested() -> None:
    taken = [select_training_rows(["a"], ["swap_obj"], seed=seed)[0] for seed in range(200)]
    assert np.mean(taken) == pytest.approx(SHARE, abs=0.1)


def release(drawn_world: Any, world: Any, folder: Path) -> pd.DataFrame:
    """Write a set of SugarCrepe++'s form with pictures of the small world; return its rows."""
    source, written = world
    taken = drawn_world[1]
    found = source.pairs.merge(written.negatives, on="pair_id").merge(written.paraphrases, on="pair_id")
    found = found[found["subtype"].isin(FIVE[:2]) & found["image_id"].isin(taken.files)].head(30)
    for subtype, of in found.groupby("subtype"):
        fields = [
            {"id": i, "filename": f"{row['image_id']}.png"}
            | {name: row[name] for name in ("caption", "caption2", "negative_caption")}
            for i, row in enumerate(of.to_dict("records"))
        ]
        (folder / f"{subtype}.json").write_text(json.dumps(fields))
        for name in of["image_id"]:
            (folder / f"{name}.png").write_bytes(taken.files[name])
    return found


@pytest.mark.parametrize("method", ["infonce", "sentence_transformers", "negclip", "cs_clip", "clic_joined"])
def test_a_step_has_the_rows_that_are_asked_for_by_any_method(
    method: str,
    drawn_world: Any,
    world: Any,
    clip_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release(drawn_world, world, tmp_path)
    task, trained = BENCHMARKS["sugarcrepe_pp"].load_rows(tmp_path, tmp_path), []
    chosen = np.ones(len(task.rows), np.bool_)

    def note(clip: Any, examples: Examples, validation: Any, settings: Any, **further: Any) -> None:
        known = examples.method
        size = count_rows_per_step(known, settings.loop.batch_size, bool(known.neighbours))
        trained.append((size, settings.loop.steps))

    monkeypatch.setattr(sugarcrepe_pp_finetune, "train_clip", note)
    clip = load_checkpoint(clip_folder)
    given = {"seed": 1, "steps": 1, "batch_size": 2, "lr": 1e-3, "warmup_steps": 0, "weight_decay": 0.1}
    made = contrastive(**given, checkpoint_every=1)
    train_model(clip, task, chosen, method=method, epochs=3, rows=5, settings=made, scratch=tmp_path)
    assert trained == [(5, 3 * (len(task.rows) // 5))]


def test_the_benchmark_tests_each_model_on_the_rows_that_did_not_train_it(
    drawn_world: Any, world: Any, clip_folder: Path, tmp_path: Path
) -> None:
    data = tmp_path / "sugarcrepe_pp"
    data.mkdir()
    made = release(drawn_world, world, data)
    spec = importlib.util.spec_from_file_location("forty_sixty_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    options = ["--seeds", "1,2", "--epochs", "1", "--rows", "4", "--lr", "0.001", "--lora-lr", "0.01"]
    places = ["--data", str(data), "--model", str(clip_folder), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(script.main, ["tune", *places, *options], catch_exceptions=False)
    assert done.exit_code == 0
    found = pd.read_csv(tmp_path / "out" / "values.csv")
    assert set(found["model"]) == {"frozen", "full", "LoRA"}
    assert {*FIVE[:2], "all"} <= set(found["subset"])
    whole = found[(found["subset"] == "all") & (found["metric"] == "itt")]
    assert (whole.groupby("seed")["rows"].nunique() == 1).all()  # the same rows for all models
    assert whole["rows"].max() < len(made)
    assert found["value"].between(0, 1).all()
    before, after = (found[found["model"] == name]["value"].to_numpy() for name in ("frozen", "full"))
    assert (before != after).any()
    assert "| all, ITT |" in done.output
