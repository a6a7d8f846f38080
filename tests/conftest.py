"""Fixtures shared by the tests: a small world and small models in their real formats."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from empty_stores import build_initialization
from hypothesis import settings
from left_out import format_left_out
from tracking_servers import served
from xdist.scheduler import LoadScopeScheduling

from caramel.runtime.environment import be_quiet, collect_seldom

collect_seldom()
be_quiet()  # before anything heavy is imported: nothing in the tests may reach for a network
# The tests are several processes on two cores: their threads would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Ray gives way to all others with niceness 15: beside the other processes, and mypy, its workers would hardly run.
os.environ.setdefault("RAY_worker_niceness", "0")
settings.register_profile(
    "unhurried", deadline=None
)  # no claim is about time: on a busy machine an example may take long
settings.load_profile("unhurried")

# What uses one smoke run, or one cluster, is one part, of the fixture's name; the longest parts come first.
PARTS = {
    "tests/pipeline/test_smoke.py": "smoke",
    "tests/runtime/ray/test_hosts.py": "hosts",
    "tests/runtime/ray/test_ray_cluster.py": "ray_cluster",
    "tests/runtime/ray/test_sharded_map.py": "ray_cluster",
    "tests/runtime/ray/test_trials.py": "ray_cluster",
    "tests/runtime/ray/test_workers.py": "ray_cluster",
    "tests/training/recipes/test_search.py": "ray_cluster",
    "tests/models/llm/test_sharded.py": "ray_cluster",
    "tests/runtime/mlflow/test_store_copy.py": "tracking_servers",
    "tests/runtime/mlflow/test_server.py": "tracking_servers",
    "tests/doctor/test_remote.py": "s3",
    "tests/release/test_get.py": "s3",
    "tests/release/test_getting_credentials.py": "s3",
    "tests/evaluation/test_evaluate.py": "ray_cluster",
    "tests/evaluation/scores/test_scoring.py": "ray_cluster",
    "tests/pipeline/test_profiles.py": "profiles",
    "tests/pipeline/test_paper_profiles.py": "profiles",  # and one process that runs stages in its forks
    "tests/gates/test_suites.py": "suites",
    "tests/cli/test_reproduce_command.py": "minilm",
    "tests/report/test_page.py": "page",
    "tests/pipeline/test_people_walk.py": "people_walk",  # this and the next two begin with the smoke run of another process
    "tests/pipeline/test_faults.py": "faults",
    "tests/pipeline/test_chaos.py": "chaos",
    "tests/fuzz/test_fuzz.py": "fuzz",
    "tests/audit/test_audit.py": "audit",
    "tests/refine/test_tradeoff.py": "tradeoff",
    "tests/models/transformers/test_generative.py": "generative",
    "tests/pipeline/test_gate.py": "gate",
    "tests/study/test_workspace.py": "study",
}
LONGEST = [*dict.fromkeys(PARTS.values())]
TINY_CLIP = {
    "embed_dim": 32,
    "quick_gelu": False,
    "custom_text": True,
    "vision_cfg": {"image_size": 48, "layers": 1, "width": 32, "head_width": 16, "patch_size": 24},
    "text_cfg": {"context_length": 40, "width": 32, "heads": 2, "layers": 1},
}


def _part(nodeid: str) -> str:
    """Return to which part of the tests one belongs: that of its file, or its file."""
    file = nodeid.partition("::")[0]
    return PARTS.get(file, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Deal the tests to pytest-xdist's processes part by part.

    So that the fixtures of a file are made once, and there are one smoke run and one cluster for all who use them.
    """

    class ByPart(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _part(nodeid)

    return ByPart(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the collector of garbage look at what tests make, not each time at all that was imported: a tenth of their time."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest parts first, so that none of them is what the others wait for at the end."""
    for item in items:
        if {"ray_cluster", "tracking_servers"} & {*getattr(item, "fixturenames", ())} - {_part(item.nodeid)}:
            raise pytest.UsageError(f"PARTS in tests/conftest.py does not say what {item.nodeid} uses")
    rank = {part: place for place, part in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(_part(item.nodeid), len(rank)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say at the end which tests were left out, and why: they need root, a browser, a server, data or a GPU."""
    if lines := format_left_out(terminalreporter.stats.get("skipped", [])):
        terminalreporter.section("left out")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def _stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have MLflow go through its dozens of migrations once: every other new store begins as a copy of the first."""
    from mlflow.store.db import utils

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            utils, "_initialize_tables", build_initialization(tmp_path_factory.mktemp("store") / "empty.db")
        )
        yield


@pytest.fixture
def blank_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the figures of pages blank: drawing takes seconds."""
    from caramel.report import plots

    monkeypatch.setattr(plots, "_render_png", lambda draw, theme: b"\x89PNG" + bytes(28))


@pytest.fixture(scope="session")
def drawn_world() -> Any:
    """A small world: (source, its images as they were handed over)."""
    from stored_images import Taken

    from caramel.sources.world.sampling import sample_pairs

    taken = Taken()
    source = sample_pairs(
        counts={"train": 60, "val": 20, "test": 30},
        num_objects=(1, 2, 3),
        allow_unmentioned_objects=False,
        unseen_frac=0.125,
        typical_color_prob=0.5,
        absolute_positions=0.5,
        group_size=1,
        seed=1,
        put=taken,
    )
    return source, taken


@pytest.fixture(scope="session")
def world(drawn_world: Any) -> Any:
    """The small world with what was written of it: (source, written)."""
    from caramel.sources.captions.scene_writer import world_negatives

    source, _ = drawn_world
    written = world_negatives(
        source.pairs, data_dir="", seed=2, max_attempts=20, allow_unmentioned_objects=False
    )
    return source, written


@pytest.fixture(scope="session")
def files(drawn_world: Any) -> dict[str, bytes]:
    """Encoded images of the small world by image_id."""
    files: dict[str, bytes] = drawn_world[1].files
    return files


@pytest.fixture(scope="session")
def clip_folder(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny, untrained CLIP as a checkpoint folder."""
    import torch
    from open_clip.tokenizer import SimpleTokenizer

    from caramel.models.open_clip.checkpoints import build_model, save_checkpoint
    from caramel.models.open_clip.tokenizer import learn_merges

    folder = tmp_path_factory.mktemp("clip")
    vocabulary = learn_merges(world[0].pairs["caption"].tolist(), folder / "bpe.txt.gz")
    size = SimpleTokenizer(str(vocabulary)).vocab_size
    config = {"model_cfg": {**TINY_CLIP, "text_cfg": {**TINY_CLIP["text_cfg"], "vocab_size": size}}}
    torch.manual_seed(0)
    model = build_model(config, "test")
    out = folder / "checkpoint"
    save_checkpoint(out, model, config=config, vocabulary=vocabulary.read_bytes(), card={"name": "tiny"})
    return out


@pytest.fixture(scope="session")
def generator_folder(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny, untrained text-to-image pipeline, saved by diffusers."""
    import torch

    from caramel.models.open_clip.tokenizer import learn_merges
    from caramel.sources.images.diffusion import CallOptions, save_pipeline
    from caramel.training.recipes import text_to_image as t2i

    folder = tmp_path_factory.mktemp("generator")
    vocabulary = learn_merges(world[0].pairs["caption"].tolist(), folder / "bpe.txt.gz")
    tokenizer = t2i.make_tokenizer(vocabulary, folder / "tokenizer")
    torch.manual_seed(0)
    transformer = t2i.make_transformer(48, 24, 64, 1)
    torch.nn.init.normal_(transformer.proj_out.weight, std=0.1)  # or it would draw grey alone
    pipeline = t2i.make_pipeline(tokenizer, t2i.make_text_encoder(tokenizer, 64), transformer)
    out = folder / "out"
    out.mkdir()
    return save_pipeline(pipeline, CallOptions(t2i.CALL_OPTIONS), out)


@pytest.fixture
def families(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The families ``counting`` and ``matching`` of encoders.py, as if they were registered."""
    import encoders

    from caramel.models.specs import open_model
    from caramel.registry import FAMILIES

    for name in ("counting", "matching"):
        monkeypatch.setitem(FAMILIES.targets, name, f"encoders:{name.upper()}")
    open_model.cache_clear()
    encoders.opened.clear()
    yield
    open_model.cache_clear()


@pytest.fixture
def mount() -> Iterator[Callable[..., Path]]:
    """Return a function that mounts a volume of its own, of some MiB in memory, at a new folder."""
    mounted: list[Path] = []

    def make(folder: Path, mebibytes: int = 64, inodes: int | None = None) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        options = f"size={mebibytes}m" + ("" if inodes is None else f",nr_inodes={inodes}")
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"volumes cannot be mounted here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield make
    for folder in reversed(mounted):
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """One Ray cluster on this machine for all tests that need it."""
    from caramel.runtime.ray.cluster import guard_token
    from caramel.runtime.ray.startup import run_local_ray

    here = Path(__file__).parent
    guard_token(make=True)
    sources = [
        str(here / "runtime" / "ray"),
        str(here / "support"),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    # Workers unpickle functions of the test modules by name, with the sources that are tested.
    runtime_env = {"env_vars": {"PYTHONPATH": os.pathsep.join(sources)}}
    with run_local_ray(num_cpus=2, runtime_env=runtime_env):
        yield


@pytest.fixture
def kept_workers(ray_cluster: None) -> Iterator[None]:
    """The cluster, whose workers stay from one map to the next, as in a stage: each new one would import PyTorch again."""
    from caramel.runtime.ray.cluster import share_session
    from caramel.runtime.ray.workers import end_workers

    with share_session():
        yield
        end_workers()


@pytest.fixture(scope="session")
def tracking_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One MLflow server for all tests that need one, on PostgreSQL where that is installed."""
    if find_spec("flask_wtf") is None:
        pytest.skip("Flask-WTF is not installed: MLflow's server asks for no password without it")
    with served(tmp_path_factory.mktemp("served")) as servers:
        yield servers


@pytest.fixture(scope="session")
def s3() -> Iterator[Any]:
    """One S3 server for all tests that need one."""
    from s3_server import S3

    if lacking := [name for name in ("moto", "boto3", "dvc_s3") if find_spec(name) is None]:
        pytest.skip(f"{', '.join(lacking)} is not installed")
    server = S3()
    try:
        server.start()
        yield server
    finally:
        server.stop()
