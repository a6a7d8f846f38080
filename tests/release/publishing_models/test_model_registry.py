"""A run's model in MLflow's registry is its checkpoint: loaded by MLflow, and by `caramel eval`, also where the store was moved."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import released_projects
import small_releases
from commands import run_command
from PIL import Image
from tracking_servers import impostor, send_body

from caramel.config.schema import load_config
from caramel.errors import BackendError, CaramelError, DataError
from caramel.interfaces.settings import Execution
from caramel.io.files import compute_file_hash
from caramel.models.open_clip.checkpoints import CONFIG
from caramel.models.specs import hash_content, open_model, parse_spec
from caramel.release.publishing_models import model_registry
from caramel.release.publishing_models.model_registry import register_model, resolve_spec
from caramel.runtime.installation import get_requirement
from caramel.runtime.mlflow import tracking
from caramel.training.data.row_units import RowCounts
from caramel.training.tracked_trials import TrainingInputs, TrialRunner
from caramel.training.variants import GRID_KEYS

TEXTS = ["a red box", "a green cup"]
FINETUNE = load_config(Path(__file__).parents[3] / "params" / "default.yaml").finetune
OWN = {"weight_decay": 0.3}  # of a variant


def trained(root: Path, key: str, *, fails: bool = False, **changed: Any) -> None:
    """Track a training as the stage does, on the default profile's settings with these changes."""
    common = FINETUNE.model_dump(exclude=set(GRID_KEYS)) | {"device": "cpu", "precision": "fp32"} | changed
    inputs = TrainingInputs("data/base", "training.parquet", "images.parquet", ("data/assemble",))
    trials = TrialRunner(
        inputs, common, RowCounts(40, 40, 40, 40, 40), 1, 1, Execution("inline", root, 0.0), root
    )
    with (
        pytest.raises(ValueError, match="it failed") if fails else nullcontext(),
        tracking.open_run(trials._plan_run({"variant": "infonce", "seed": 3, "overrides": OWN}, key)),
    ):
        if fails:
            raise ValueError("it failed")


@pytest.fixture
def project(clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pinned project with two models, of one of which the run was tracked."""
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    root = released_projects.made(tmp_path / "project")
    for name in ("infonce-3", "untracked-3"):
        shutil.copytree(clip_folder, root / "data" / "finetune" / name)
    (root / "data" / "finetune" / "overrides.json").write_text(json.dumps({"infonce": OWN}))
    released_projects.pinned(root, "v2.0", finetune=json.loads(FINETUNE.model_dump_json()))
    monkeypatch.chdir(root)
    trained(root, "first")
    return root


def test_a_registered_model_is_the_checkpoint_wherever_the_store_lies(
    project: Path, clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    made = register_model("infonce-3", project, name="tuned")
    assert made[:3] == ("tuned", "1", "pin-v2_0")
    assert register_model("infonce-3", project, name="tuned") == made
    moved = project.rename(tmp_path / "moved")
    monkeypatch.chdir(moved)
    own = open_model(f"open_clip:{clip_folder}", "cpu", "fp32").encode_texts(TEXTS, None)
    for spec, name in (
        ("models:/tuned/1", "tuned 1"),
        ("models:/tuned@pin-v2_0", "tuned pin-v2_0"),
        ("mine=models:/tuned/1", "mine"),
    ):
        found = resolve_spec(spec)
        assert parse_spec(found).name == name
        assert str(moved) in found
    assert hash_content(found).split()[-1] == hash_content(f"open_clip:{clip_folder}").split()[-1]
    np.testing.assert_array_equal(open_model(found, "cpu", "fp32").encode_texts(TEXTS, None), own)
    mlflow.set_tracking_uri(tracking.get_tracking_uri(moved))
    model = mlflow.pyfunc.load_model("models:/tuned@pin-v2_0")
    np.testing.assert_allclose(model.predict(pd.DataFrame({"caption": TEXTS})), own, atol=1e-6)
    with pytest.raises(CaramelError, match="'caption' or 'image'"):
        model.predict(pd.DataFrame({"x": TEXTS}))
    version = mlflow.MlflowClient().get_model_version("tuned", "1")
    assert (version.run_id, version.tags["pin"]) == (made.run, "v2.0")
    assert not list((moved / "mlruns").rglob("*.pkl"))
    (needed,) = (moved / "mlruns").rglob("requirements.txt")
    assert get_requirement() in needed.read_text().splitlines()


def test_a_registered_model_is_evaluated_by_a_process_that_did_nothing_before(
    project: Path, tmp_path: Path
) -> None:
    data = small_releases.write_release(tmp_path / "benchmark", "sugarcrepe")
    Image.new("RGB", (48, 48)).save(data / "1.png")
    elsewhere = {"MLFLOW_REGISTRY_URI": f"sqlite:///{tmp_path}/other.db"}  # of another program
    done = run_command(project, "register", "infonce-3", "--name", "tuned", environment=elsewhere)
    assert "models:/tuned/1" in done.stdout, done.stderr
    options = ["--benchmark", "sugarcrepe", "--data", data, "--images", data, "--out", "scores", "--dry-run"]
    done = run_command(project, "eval", "--model", "models:/tuned/1", *options, environment=elsewhere)
    assert (done.returncode, done.stdout) == (0, "Nothing is missing.\n"), done.stdout + done.stderr
    assert not (tmp_path / "other.db").exists()


def test_the_run_is_one_that_finished_with_the_pins_params(project: Path) -> None:
    first = register_model("infonce-3", project, name="tuned").run
    trained(project, "failed", fails=True)
    trained(project, "other", lr=0.5)
    assert register_model("infonce-3", project, name="again").run == first
    trained(project, "elsewhere", precision="bf16")
    with pytest.raises(DataError, match=r"Several tracked runs .*differ in precision\."):
        register_model("infonce-3", project, name="tuned")


def test_a_run_of_other_params_or_that_failed_is_no_origin(project: Path) -> None:
    released_projects.pinned(project, "v3", finetune={**json.loads(FINETUNE.model_dump_json()), "lr": 0.5})
    trained(project, "failed", fails=True, lr=0.5)
    with pytest.raises(
        DataError, match=r"made this model of version v3: \w+ had lr 0.0003, not 0.5; \w+ is FAILED"
    ):
        register_model("infonce-3", project, name="tuned", pin="v3")
    released_projects.pinned(project, "v4", finetune={})
    with pytest.raises(DataError, match="params of version v4 lack"):
        register_model("infonce-3", project, name="tuned", pin="v4")


def test_what_was_fetched_is_fetched_again_where_it_is_broken_and_left_where_another_process_fetched_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    register_model("infonce-3", project, name="tuned")
    folder = Path(resolve_spec("models:/tuned/1").partition("open_clip:")[2])
    whole = (folder / CONFIG).read_text()
    (folder / CONFIG).write_text(whole + "\n")
    fetch, files = mlflow.artifacts.download_artifacts, []

    def fetched_by_two(*given: Any, **named: Any) -> Any:
        if not files:
            files.append(None)
            resolve_spec("models:/tuned/1")
            files.append((folder / CONFIG).stat().st_ino)
        return fetch(*given, **named)

    monkeypatch.setattr(mlflow.artifacts, "download_artifacts", fetched_by_two)
    assert resolve_spec("models:/tuned/1") == f"tuned 1=open_clip:{folder}"
    assert (folder / CONFIG).read_text() == whole
    assert (folder / CONFIG).stat().st_ino == files[1]


def test_what_is_not_there_is_named(project: Path) -> None:
    for run, name, said in (
        ("none-1", "tuned", "no model of a run 'none-1'"),
        ("untracked-3", "tuned", "No tracked run 'finetune untracked-3'"),
        ("infonce-3", "a/b", "letters, digits"),
    ):
        with pytest.raises(CaramelError, match=said):
            register_model(run, project, name=name)
    with pytest.raises(BackendError, match=r"models:/none/1.*cannot be loaded"):
        resolve_spec("models:/none/1")
    assert resolve_spec("open_clip:data/base") == "open_clip:data/base"


def test_the_number_that_a_server_gives_a_version_leads_to_no_other_folder(
    clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    from mlflow.entities.model_registry import ModelVersion, ModelVersionTag

    root, mine = tmp_path / "project", tmp_path / "mine"
    root.mkdir()
    mine.mkdir()
    (mine / "letter.txt").touch()
    monkeypatch.chdir(root)
    monkeypatch.setenv("CARAMEL_TRACKING_URI", "http://127.0.0.1:9")
    tags = [ModelVersionTag(model_registry.CONTENT, compute_file_hash(clip_folder))]
    version = ModelVersion("tuned", "1/../../../../mine", 0, tags=tags)
    client = SimpleNamespace(get_model_version=lambda *_: version)
    monkeypatch.setattr(model_registry, "open_client", lambda _: client)

    def download(_: str, dst_path: str, **where: str) -> None:
        shutil.copytree(clip_folder, Path(dst_path, "checkpoint"))

    monkeypatch.setattr(mlflow.artifacts, "download_artifacts", download)
    with pytest.raises(BackendError, match="which is not a number"):
        resolve_spec("models:/tuned/1")
    assert [path.name for path in mine.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("file://{home}", "is a path of this machine"),
        ("{home}", "is a path of this machine"),
        ("mlflow-artifacts://evil.example.org/1", "lies at another server"),
        ("https://me:s3cret@evil.example.org/1", "lies at another server"),
        ("https://me:" + 12 * "s3cret." + "@evil.example.org/1", "lies at another server"),
        ("models:/other/1", "is another run or model"),
        ("Models:/other/1", "is another run or model"),
        ("runs:/of_a_path/model", "is a path of this machine"),
        ("runs:/of_a_run/model", "is another run or model"),
        ("http://[1/", "is no address"),
    ],
)
def test_a_server_names_no_files_of_others_as_those_of_a_version(
    uri: str, said: str, clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.entities.model_registry import ModelVersion, ModelVersionTag

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CARAMEL_TRACKING_URI", store := "http://store.example.org:5000")
    version = ModelVersion(
        "tuned", "1", 0, tags=[ModelVersionTag(model_registry.CONTENT, compute_file_hash(clip_folder))]
    )
    artifacts = {"of_a_path": clip_folder.as_uri(), "of_a_run": "runs:/of_a_path/model"}
    client = SimpleNamespace(
        tracking_uri=store,
        get_model_version=lambda *_: version,
        get_model_version_download_uri=lambda *_: uri.format(home=clip_folder),
        get_run=lambda run: SimpleNamespace(info=SimpleNamespace(artifact_uri=artifacts[run])),
    )
    monkeypatch.setattr(model_registry, "open_client", lambda _: client)
    with pytest.raises(BackendError, match=said) as raised:
        resolve_spec("models:/tuned/1")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("body", [b'{"model_version": {"name": true}}', b'{"model_version": 1}', b"\\x89PNG"])
def test_a_reply_that_is_none_of_a_registry_is_told(
    body: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with impostor(lambda handler: send_body(handler, body, Content_Type="application/json")) as url:
        monkeypatch.setenv("CARAMEL_TRACKING_URI", url)
        with pytest.raises(BackendError, match=r"models:/tuned/1.*cannot be loaded"):
            resolve_spec("models:/tuned/1")
