"""The doctor says ok, warn or FAIL for each thing it looks at, and what to do."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import pytest
from commands import call_command
from training_rows import training_rows

from caramel.config.profiles import write_profile
from caramel.config.schema import Config, load_config
from caramel.doctor import local as examination
from caramel.doctor import machine, settings, versions
from caramel.doctor.findings import FAIL, OK, WARN, Finding
from caramel.io.safe_yaml import read_yaml
from caramel.runtime.ray.cluster import SETTINGS
from caramel.schemas.io import write_table
from caramel.schemas.training import TRAINING

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "params", tmp_path / "params")
    shutil.copytree(ROOT / "inputs" / "zero_shot", tmp_path / "inputs" / "zero_shot")
    return tmp_path


def config(project: Path, **sets: str) -> Config:
    return load_config(
        write_profile("default", {key.replace("__", "."): value for key, value in sets.items()}, project)
    )


def test_a_finding_is_one_line_with_its_cure() -> None:
    assert str(Finding(OK, "disk", "72 GiB free")) == "ok    disk       72 GiB free"
    assert str(Finding(FAIL, "dvc", "none", "dvc init")) == "FAIL  dvc        none  -> dvc init"


def test_packages_are_compared_with_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    assert machine.check_packages(tmp_path).state == WARN
    version = metadata.version("click")
    lock.write_text(
        f"# a comment\nclick=={version}\nclick=={version} \\\n    --hash=sha256:0a\nno_such==1 ; sys_platform == 'plan9'\n",
        encoding="utf-8",
    )
    assert machine.check_packages(tmp_path) == Finding(OK, "packages", "all 2 match requirements.lock")
    lock.write_text("click==0.1\n", encoding="utf-8")
    found = machine.check_packages(tmp_path)
    assert (found.state, found.text) == (
        WARN,
        f"1 differ from the lock: click {version} (lock: ==0.1)",
    )
    lock.write_text("no-such-package==1\n", encoding="utf-8")
    assert machine.check_packages(tmp_path).state == FAIL


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"# nothing\n",
        b"click==\n",
        b"-e .\n",
        "click==8".encode("utf-16"),
        b"\xff",
        b"click==8 ; nonsense == 'x'\n",
    ],
)
def test_a_broken_requirements_lock_is_said_with_its_cure(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "requirements.lock").write_bytes(content)
    found = machine.check_packages(tmp_path)
    assert (found.state, found.cure) == (FAIL, "git checkout requirements.lock")


@pytest.mark.parametrize(("free", "state"), [(50, OK), (5, WARN), (1, FAIL)])
def test_little_disk_is_said(free: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=free * 2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert machine.check_disk(tmp_path).state == state


def test_params_are_read_and_their_mistakes_told(project: Path) -> None:
    assert settings.check_params(project).state == FAIL
    config(project)
    assert settings.check_params(project) == Finding(OK, "params", "profile 'default', source 'world'")
    path = project / "params.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("profile:", "profil:"), encoding="utf-8")
    assert "did you mean 'profile'" in settings.check_params(project).text


def test_data_that_a_method_lacks_is_told_before_it_trains(
    project: Path, world: object, files: dict[str, bytes], clip_folder: Path
) -> None:
    found = settings.check_methods(project, config(project))
    assert (found.state, found.text) == (
        OK,
        "infonce, pairs_unpaired, shuffled, trohn_text, negative_images, trohn_img; pairs and model do not exist yet",
    )
    shutil.copytree(clip_folder, project / "data" / "base")
    (project / "data" / "assemble").mkdir()
    rows = training_rows(world, list(files), 8).assign(caption2=None)
    write_table(TRAINING, rows, project / "data" / "assemble" / "training.parquet")
    assert settings.check_methods(project, config(project)).text.endswith("their data is available")
    found = settings.check_methods(project, config(project, finetune__variants="[infonce, clic]"))
    assert found.state == FAIL
    assert "None of 8 rows has a caption2 (a paraphrase), which method 'clic' trains on" in found.text


def test_an_unknown_backend_is_told_before_a_stage_runs(project: Path) -> None:
    assert settings.check_backends(config(project)).state == OK
    found = settings.check_backends(
        config(project, scores__scorers="[length, lenght]", filter_images__judge="clop")
    )
    assert found.state == FAIL
    assert "filter_images.judge = 'clop': Unknown judge backend 'clop'" in found.text
    assert "scores.scorers = 'lenght': Unknown scorer 'lenght'" in found.text


def test_a_gpu_that_is_asked_for_must_be_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert machine.check_gpu(config(project)).state == OK
    assert machine.check_gpu(config(project, run__device="cuda")).state == FAIL


def test_a_gpu_that_mlflow_does_not_see_is_named_with_the_package_to_install(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"GPU {index}")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = machine.check_gpu(config(project))
    assert (found.state, found.cure) == (WARN, "pip install nvidia-ml-py")
    assert found.text == "GPU 0, GPU 1; tracked runs do not record their load and memory"
    module = ModuleType("pynvml")
    module.__spec__ = ModuleSpec("pynvml", None)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert machine.check_gpu(config(project)) == Finding(OK, "gpu", "GPU 0, GPU 1")


def answer_as_grpc(listening: socket.socket) -> None:
    """Take one connection and begin as a server of HTTP/2 does: with its settings."""
    connection, _ = listening.accept()
    with connection:
        connection.recv(1024)
        connection.sendall(SETTINGS)


def test_a_cluster_that_cannot_be_reached_is_a_failure(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert machine.check_ray(None).state == OK
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            monkeypatch.setenv("RAY_ADDRESS", address)
            answering = threading.Thread(target=answer_as_grpc, args=(listening,))
            answering.start()
            assert machine.check_ray(None).state == OK
            answering.join()
    found = machine.check_ray(None)
    assert found.state == FAIL
    assert "cannot be reached" in found.text
    for address in ("nonsense", "127.0.0.1:99999999", "a..b:1"):
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert machine.check_ray(None).state == FAIL


def test_a_hub_model_needs_the_hub(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = config(project, pretrain__backend="pretrained", pretrain__pretrained="ViT-B-32:openai")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert settings.check_hub(config(project)).state == OK
    found = settings.check_hub(named)
    assert found.state == WARN
    assert "'ViT-B-32:openai'" in found.text
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert settings.check_hub(named).state == OK


def test_the_dvc_repository_and_its_remote_are_found(tmp_path: Path) -> None:
    assert versions.check_dvc_repository(tmp_path).state == FAIL
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_bytes(b"\xff")
    found = versions.check_dvc_repository(tmp_path)
    assert (found.state, "settings" in found.text) == (FAIL, True)
    (tmp_path / ".dvc" / "config").write_text("[core]\n    remote = lab\n", encoding="utf-8")
    assert versions.check_dvc_repository(tmp_path).state == WARN
    (tmp_path / ".dvc" / "config.local").write_text(
        "['remote \"lab\"']\n    url = s3://x\n    verify = true\n", encoding="utf-8"
    )
    said = "remote lab; `caramel doctor --remote` tests it"
    assert versions.check_dvc_repository(tmp_path) == Finding(OK, "dvc", said)


def test_a_remote_whose_objects_are_believed_is_a_failure_and_mended_where_it_is_named(
    tmp_path: Path,
) -> None:
    (tmp_path / ".dvc").mkdir()
    committed, local = tmp_path / ".dvc" / "config", tmp_path / ".dvc" / "config.local"
    committed.write_text("['remote \"lab\"']\n    url = s3://x\n", encoding="utf-8")
    local.write_text(
        "['remote \"lab\"']\n    verify = true\n['remote \"mine\"']\n    url = /x\n", encoding="utf-8"
    )
    found = versions.check_dvc_repository(tmp_path)
    assert (found.state, found.cure) == (FAIL, "caramel doctor --fix, and commit .dvc/config")
    assert "mine, lab are not verified" in found.text
    assert list(examination.fix_project(tmp_path)) == ["what is pulled from mine, lab is checked from now on"]
    assert "verify = true" in committed.read_text(encoding="utf-8").lower()
    assert "/x" in local.read_text(encoding="utf-8")
    assert versions.check_dvc_repository(tmp_path).state == OK
    assert list(examination.fix_project(tmp_path)) == []


@pytest.mark.parametrize(
    ("modes", "state"),
    [
        ((0o777, 0o777, 0o777), WARN),
        ((0o755, 0o755, 0o777), WARN),
        ((0o755, 0o775, 0o755), WARN),
        ((0o755, 0o755, None), WARN),  # DVC will make it, for all users
        ((0o755, None, None), WARN),
        ((0o755, 0o755, 0o755), OK),
        ((0o755, 0o700, 0o777), OK),
        ((0o700, 0o777, 0o777), OK),
        ((0o700, None, None), OK),
    ],
)
def test_a_folder_of_dvcs_that_other_users_can_write_into_is_a_warning(
    modes: tuple[int | None, ...], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TemporaryDirectory() as scratch:  # pytest's own folders are of this user alone
        Path(scratch).chmod(0o755)
        folder = Path(scratch, "above", "site")
        for path, mode in zip((folder.parent, folder, folder / "repo"), modes, strict=True):
            if mode is not None:
                path.mkdir()
                path.chmod(mode)
        monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(folder))
        found = versions.check_site_cache(Path(scratch))
    assert (found.state, str(folder) in found.text) == (state, True)
    assert ("DVC_SITE_CACHE_DIR" in found.cure) == (state == WARN)


def test_the_lock_is_current_until_a_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "SLOW", 300.0)  # seconds, on a machine that does other work beside
    (tmp_path / "dvc.yaml").write_text(
        "stages:\n  copy:\n    cmd: cp a b\n    deps: [a]\n    outs: [b]\n", encoding="utf-8"
    )
    (tmp_path / "a").write_text("1", encoding="utf-8")
    assert versions.check_dvc_lock(tmp_path, versions.start_dvc_status(tmp_path)).state == WARN
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core]\n    no_scm = true\n", encoding="utf-8")
    repro = [sys.executable, "-m", "dvc", "repro", "-q"]
    subprocess.run(repro, cwd=tmp_path, check=True, capture_output=True)
    found = versions.check_dvc_lock(tmp_path, versions.start_dvc_status(tmp_path))
    assert found == Finding(OK, "dvc.lock", "current")
    (tmp_path / "a").write_text("2", encoding="utf-8")
    found = versions.check_dvc_lock(tmp_path, versions.start_dvc_status(tmp_path))
    assert (found.state, found.text) == (WARN, "1 stage to run, from 'copy' on")
    (tmp_path / "dvc.yaml").write_text("stages: [\n", encoding="utf-8")
    assert versions.check_dvc_lock(tmp_path, versions.start_dvc_status(tmp_path)).state == FAIL


@pytest.mark.parametrize(
    "text", ["", "schema: '2.0'\nstages:\n  copy:\n    cm", "schema: '2.0'\nstages: [1]\n"]
)
def test_a_broken_lock_or_rwlock_of_dvc_is_a_failure_with_the_cure(text: str, tmp_path: Path) -> None:
    (tmp_path / ".dvc" / "tmp").mkdir(parents=True)
    assert versions.check_dvc_repository(tmp_path).state == WARN, "no remote"
    (tmp_path / ".dvc" / "tmp" / "rwlock").write_text("", encoding="utf-8")
    (tmp_path / "dvc.lock").write_text(text, encoding="utf-8")
    for found in (
        versions.check_dvc_repository(tmp_path),
        versions.check_dvc_lock(tmp_path, versions.start_dvc_status(tmp_path)),
    ):
        assert found.state == FAIL
        assert found.cure.startswith("caramel doctor --fix")


def test_the_store_of_runs_is_counted_or_said_to_be_broken(tmp_path: Path) -> None:
    assert versions.check_mlflow(tmp_path).state == OK
    database = tmp_path / "mlruns" / "mlflow.db"
    database.parent.mkdir()
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE runs (status TEXT)")
    connection.execute("INSERT INTO runs VALUES ('FINISHED'), ('RUNNING')")
    connection.commit()
    connection.close()
    assert versions.check_mlflow(tmp_path) == Finding(OK, "mlflow", "2 runs, 1 still running")
    database.write_bytes(b"this is no database, whatever its name may be")
    assert versions.check_mlflow(tmp_path).state == FAIL


def test_a_read_only_store_that_is_healthy_is_no_failure(tmp_path: Path, mount: Callable[..., Path]) -> None:
    place = mount(tmp_path / "mlruns")
    with closing(sqlite3.connect(place / "mlflow.db")) as store:
        store.execute("PRAGMA journal_mode=WAL")
        store.execute("CREATE TABLE runs (status TEXT)")
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    assert versions.check_mlflow(tmp_path) == Finding(OK, "mlflow", "0 runs, 0 still running")
    found = machine.check_disk(tmp_path)
    assert found.state == FAIL
    assert f"mlruns cannot be written: its volume {place} is read-only" in found.text


def test_an_empty_store_of_runs_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "mlruns").mkdir()
    (tmp_path / "mlruns" / "mlflow.db").touch()
    found = versions.check_mlflow(tmp_path)
    assert found.state == FAIL
    assert "is empty. The runs that it held are gone, unless there is a copy" in found.text


def test_the_whole_examination_opens_no_connection(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **keywords: object) -> None:
        raise AssertionError(f"a connection to {arguments}")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    config(project)
    names = [finding.name for finding in examination.examine_project(project)]
    assert names == [
        "python", "packages", "disk", "memory", "cores", "params", "backends", "inputs", "methods",
        "gpu", "ray", "hub", "git", "dvc", "dvc.lock", "mlflow",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of this repository's last commit, in which nothing has been made."""
    folder = tmp_path_factory.mktemp("fresh") / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    return folder


def doctor_of(folder: Path, profile: str) -> tuple[int, dict[str, str]]:
    """Return what `caramel doctor` exits with in a process of its own, and its lines by the name of their finding."""
    assert call_command(folder, "config", "use", profile).returncode == 0
    # DVC may take its time on a machine that does other work beside.
    call = f"from caramel.doctor import versions; versions.SLOW = 300.0; from caramel.cli import main; main({['doctor']!r})"
    done = subprocess.run(
        [sys.executable, "-c", call], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, {
        line[6:].split()[0]: line for line in done.stdout.splitlines() if line[:5].strip()
    }


def test_a_fresh_clone_has_no_failure_whichever_profile_was_set(clone: Path) -> None:
    code, lines = doctor_of(clone, "smoke")
    assert code == 0, lines
    stages = len(read_yaml(clone / "dvc.yaml", "")["stages"])
    assert "stages to run, from 'scenes' on" in lines["dvc.lock"]
    assert lines["dvc.lock"].endswith(f"; outputs of {stages} stages are missing  -> dvc repro")
    assert not [line for line in lines.values() if line.startswith("FAIL")]


def test_a_folder_without_captions_is_a_failure_before_the_first_stage(project: Path) -> None:
    asked = load_config(write_profile("files", {}, project))
    found = settings.check_inputs(project, asked)
    assert (found.state, "'inputs' has no captions file" in found.text) == (FAIL, True)
    (project / "inputs" / "captions.csv").write_text("filename,caption\n", encoding="utf-8")
    assert settings.check_inputs(project, asked).state == OK


def test_what_the_profile_paper_lacks_is_named_file_by_file(project: Path) -> None:
    asked = load_config(write_profile("paper", {}, project))
    found = settings.check_inputs(project, asked)
    assert found.state == FAIL
    for lacking in ("scenes.data_dir = 'inputs/coco'", "train_generator.pretrained = 'inputs/sdxl-dpo'"):
        assert lacking in found.text
    assert "openai" not in found.text  # a name of open_clip's is fetched
    said = settings.check_backends(asked).text
    for key in ("evaluate.data = 'inputs/benchmarks'", "evaluate.zero_shot = 'inputs/imagenet'"):
        assert f"{key}: no such folder" in said
    for name in ("coco", "sdxl-dpo"):
        (project / "inputs" / name).mkdir()
    (project / "inputs" / "coco" / "captions.json").touch()
    assert settings.check_inputs(project, asked).state == OK
    assert settings.check_inputs(project, config(project)).text == "none needed"
