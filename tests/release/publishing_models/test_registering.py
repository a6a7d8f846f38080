"""A run's model in MLflow's registry is its checkpoint: loaded by MLflow, and by `caramel eval`, also where the store was moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import released_projects

from caramel.errors import BackendError, CaramelError
from caramel.models.families.specs import content_of, open_model, parse_spec
from caramel.release.publishing_models.registering import register, resolved
from caramel.running import tracking

TEXTS = ["a red box", "a green cup"]


@pytest.fixture
def project(clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pinned project with two models, of one of which the run was tracked."""
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    root = released_projects.made(tmp_path / "project")
    for name in ("infonce-3", "untracked-3"):
        shutil.copytree(clip_folder, root / "data" / "finetune" / name)
    released_projects.pinned(root, "v2.0")
    monkeypatch.chdir(root)
    with tracking.run("finetune infonce-3", key="k", params={"lr": 1}, data=["data/assemble"]):
        pass
    return root


def test_a_registered_model_is_the_checkpoint_wherever_the_store_lies(
    project: Path, clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    made = register("infonce-3", project, name="tuned")
    assert made[:3] == ("tuned", "1", "pin-v2_0")
    assert register("infonce-3", project, name="tuned") == made
    moved = project.rename(tmp_path / "moved")
    monkeypatch.chdir(moved)
    own = open_model(f"open_clip:{clip_folder}", "cpu", "fp32").encode_texts(TEXTS, None)
    for spec, name in (
        ("models:/tuned/1", "tuned 1"),
        ("models:/tuned@pin-v2_0", "tuned pin-v2_0"),
        ("mine=models:/tuned/1", "mine"),
    ):
        found = resolved(spec)
        assert parse_spec(found).name == name
        assert str(moved) in found
    assert content_of(found).split()[-1] == content_of(f"open_clip:{clip_folder}").split()[-1]
    np.testing.assert_array_equal(open_model(found, "cpu", "fp32").encode_texts(TEXTS, None), own)
    mlflow.set_tracking_uri(tracking.tracking_uri(moved))
    model = mlflow.pyfunc.load_model("models:/tuned@pin-v2_0")
    np.testing.assert_allclose(model.predict(pd.DataFrame({"caption": TEXTS})), own, atol=1e-6)
    with pytest.raises(CaramelError, match="'caption' or 'image'"):
        model.predict(pd.DataFrame({"x": TEXTS}))
    version = mlflow.MlflowClient().get_model_version("tuned", "1")
    assert (version.run_id, version.tags["pin"]) == (made.run, "v2.0")
    assert not list((moved / "mlruns").rglob("*.pkl"))


def test_what_is_not_there_is_named(project: Path) -> None:
    for run, name, said in (
        ("none-1", "tuned", "no model of a run 'none-1'"),
        ("untracked-3", "tuned", "No tracked run 'finetune untracked-3'"),
        ("infonce-3", "a/b", "letters, digits"),
    ):
        with pytest.raises(CaramelError, match=said):
            register(run, project, name=name)
    with pytest.raises(BackendError, match=r"models:/none/1.*cannot be had"):
        resolved("models:/none/1")
    assert resolved("open_clip:data/base") == "open_clip:data/base"
