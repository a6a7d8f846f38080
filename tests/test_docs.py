"""What the documentation says can be done: its commands are known, two of its stories and its examples run, its links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import click
import numpy as np
import open_clip
import pandas as pd
import pytest
import released_projects
import small_transformers
from PIL import Image
from remote_projects import cached
from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel, CLIPProcessor

import caramel
from caramel.cli.commands import cli, run_cli
from caramel.config.profiles import read_profile
from caramel.config.schema import Config, load_config
from caramel.errors import ConfigError
from caramel.evaluation.results.summary import summarise_similarities
from caramel.io.safe_yaml import parse_yaml, read_yaml
from caramel.registry import BENCHMARKS
from caramel.release import pin as pins
from caramel.schemas.catalogue import TABLES
from caramel.schemas.evaluation import ANSWERS, METRICS, SIMILARITIES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.rejects import REJECTS
from caramel.utils.resampling import Bootstrap

ROOT = Path(__file__).parents[1]
SIZE = 32
URL = "https://example.org/benchmark.git"  # of the project that a reader gets


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path, language: str) -> list[str]:
    """Return the blocks of a page in one language; "" are those that name none."""
    text = page.read_text(encoding="utf-8")
    return [
        body
        for name, body in re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
        if name == language
    ]


def commands_of(page: Path) -> list[list[str]]:
    """Return the calls of ``caramel`` in a page's blocks of commands, word by word."""
    lines = "\n".join(blocks_of(page, "") + blocks_of(page, "bash")).replace("\\\n", " ").splitlines()
    calls = [re.split(r"&&|;", line.partition(" #")[0]) for line in lines]
    found = [shlex.split(call)[1:] for line in calls for call in line if call.strip().startswith("caramel ")]
    return [words for words in found if not any(word.startswith("[") for word in words)]  # a form, not a call


def resolved(words: list[str]) -> None:
    """Have click read a call, without doing it.

    Raises:
        click.UsageError: there is no such command or option, or an argument is missing or too many.
    """
    command, context, rest = cli, click.Context(cli, info_name="caramel"), words
    while isinstance(command, click.Group):
        _, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
    with suppress(click.exceptions.Exit):  # --help
        command.make_context(command.name, list(rest))


def pinned(root: Path) -> None:
    """Pin a small project as v1.0, as if DVC had made its one table."""
    path = root / "data" / "assemble" / "training.parquet"
    rows = [{"id": "a", "stage": "refine", "reason": "surplus", "text": "x"}]
    write_table(REJECTS, build_frame(REJECTS, rows), path)
    out = {"path": "data/assemble", "md5": pins.compute_dvc_hash(path.parent)}
    lock = {"schema": "2.0", "stages": {"make": {"cmd": "make", "outs": [out]}}}
    (root / "dvc.lock").write_text(json.dumps(lock), encoding="utf-8")
    (root / "params.yaml").write_text("profile: smoke\n", encoding="utf-8")
    pins.create_pin("v1.0", root)


def small_benchmark(root: Path) -> None:
    rows = {
        str(n): {
            "filename": f"{n % 4}.jpg",
            "caption": f"a {one} dog and a {other} cat",
            "negative_caption": f"A {other} dog and a {one} cat.",
        }
        for n, (one, other) in enumerate(
            [("red", "blue"), ("big", "small"), ("blue", "big"), ("small", "red")]
        )
    }
    (root / "benchmarks" / "sugarcrepe").mkdir(parents=True)
    (root / "benchmarks" / "sugarcrepe" / "swap_att.json").write_text(json.dumps(rows), encoding="utf-8")
    (root / "coco" / "val2017").mkdir(parents=True)
    for n in range(4):
        pixels = np.random.default_rng(n).integers(0, 255, (SIZE, SIZE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / "coco" / "val2017" / f"{n}.jpg")


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=lambda page: page.stem)
def test_every_command_that_a_page_shows_is_one(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda self, value, *rest: value)  # the files are the reader's
    for words in commands_of(page):
        resolved(words)


def params_of(page: Path) -> list[dict]:
    """Return the settings that a page shows: blocks of YAML whose keys are sections of ``params.yaml``."""
    blocks = [*blocks_of(page, ""), *blocks_of(page, "yaml")]
    first = {body: body.partition(":")[0].strip() for body in blocks}
    return [parse_yaml(body, page.name) for body in blocks if first[body] in Config.model_fields]


def test_settings_that_a_page_shows_are_accepted(tmp_path: Path) -> None:
    shown = [(page, params) for page in PAGES for params in params_of(page)]
    assert {page.stem for page, _ in shown} >= {"photographs", "training"}
    (tmp_path / "params").mkdir()
    shutil.copy(ROOT / "params" / "default.yaml", tmp_path / "params")
    for _, params in shown:
        (tmp_path / "params" / "shown.yaml").write_text(json.dumps(params), encoding="utf-8")
        read_profile("shown", {}, tmp_path)
    outdated = {"synthesize": {"shard": 8}}
    (tmp_path / "params" / "shown.yaml").write_text(json.dumps(outdated), encoding="utf-8")
    with pytest.raises(ConfigError, match="shard"):
        read_profile("shown", {}, tmp_path)


@pytest.mark.parametrize("words", ["evall", "eval --modle x", "get --out x", "pin a b", "config use"])
def test_a_command_that_is_none_would_be_told(words: str) -> None:
    with pytest.raises(click.UsageError):
        resolved(words.split())


def test_every_link_of_the_site_leads_somewhere_and_its_reference_is_whole(tmp_path: Path) -> None:
    built = subprocess.run(
        ["mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    said = {
        name: (tmp_path / "reference" / name / "index.html").read_text()
        for name in ("commands", "params", "tables", "formats")
    }
    assert all(
        (f"caramel {name}" in said["commands"]) == (not command.hidden)
        for name, command in cli.commands.items()
    )
    assert all(f'id="{name}"' in said["params"] for name in read_yaml(ROOT / "params" / "default.yaml", ""))
    assert all(
        f"<code>{column}</code>" in said["tables"] for table in TABLES.values() for column in table.columns
    )
    assert all(f'id="{name}"' in said["formats"] for name in BENCHMARKS)
    assert not re.search(
        r'(?:src|href)="(?:https?:)?//(?!example|squidfunk|github)', (tmp_path / "index.html").read_text()
    )


def test_the_links_of_the_readme_lead_to_pages() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for place in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (ROOT / place).exists(), place
    assert len(text.splitlines()) <= 160


def test_the_story_of_a_checkpoint_is_as_it_is_told(tmp_path, monkeypatch, capsys, clip_folder) -> None:
    monkeypatch.chdir(tmp_path)
    small_benchmark(tmp_path)
    for name in ("tuned", "base"):
        shutil.copytree(clip_folder, tmp_path / "checkpoints" / name)
    for words in commands_of(ROOT / "docs" / "stories" / "checkpoint.md"):
        try:
            code = run_cli(words)
        except SystemExit as ended:
            code = ended.code
        assert code == 0, capsys.readouterr()
    said = capsys.readouterr().out
    assert "| tuned |" in said
    assert {path.name for path in Path("again").iterdir()} >= {"metrics.csv"}


def lab(root: Path) -> Path:
    """Make a project with the versions v1.0 and v1.1, whose data lies in DVC's cache."""
    released_projects.made(root)
    (root / "pins" / "v1.json").unlink()
    scores = np.random.default_rng(0).normal(size=(40, 2))
    rows = [
        ("swap_att/" + str(n), "m", "sugarcrepe", f"{n % 7}.jpg", ["swap_att"], *pair)
        for n, pair in enumerate(scores)
    ]
    names = ["instance_id", "model", "benchmark", "image_id", "subsets", "s_c0_i0", "s_c1_i0"]
    scored = build_frame(SIMILARITIES, pd.DataFrame(rows, columns=names))
    found = summarise_similarities(
        scored, {"sugarcrepe": BENCHMARKS["sugarcrepe"]}, bootstrap=Bootstrap(100, 1)
    )
    out = root / "data" / "evaluate"
    write_table(SIMILARITIES, scored, out / "similarities.parquet")
    write_table(ANSWERS, build_frame(ANSWERS, []), out / "answers.parquet")
    write_table(METRICS, found, out / "metrics.parquet")
    path = root / "data" / "assemble" / "instances.parquet"
    for version in ("v1.0", "v1.1"):
        released_projects.pinned(root, version)
        cached(root)
        write_table(INSTANCES, read_table(INSTANCES, path).iloc[1:], path)
    return root


def test_the_story_of_a_reader_is_as_it_is_told(tmp_path, monkeypatch, capsys, clip_folder) -> None:
    project, page = lab(tmp_path / "lab"), ROOT / "docs" / "stories" / "reader.md"
    shutil.copytree(clip_folder, tmp_path / "reader" / "checkpoints" / "mine")
    monkeypatch.chdir(tmp_path / "reader")

    def do(line: str) -> None:
        for call in line.split("&&"):
            program, *words = shlex.split(call)
            if program == "cd":
                monkeypatch.chdir(words[0])
            elif program == "caramel":
                assert run_cli(words) == 0, capsys.readouterr()

    first, *others, last = [block.replace(URL, str(project)) for block in blocks_of(page, "bash")]
    assert str(project) in first, "the URL of the page is another one"
    for line in "".join([first, *others]).splitlines():
        do(line)
    (block,) = blocks_of(page, "python")
    names: dict[str, pd.DataFrame] = {}
    exec(compile(block.replace(URL, str(project)), "reader.md", "exec"), names)
    assert len(names["rows"]) == 6
    said = capsys.readouterr().out
    assert "The data set on disk is version v1.0." in said
    assert "equals the table recomputed from its similarities, to the last digit" in said
    assert "mine" in (tmp_path / "reader" / "mine" / "metrics.csv").read_text(encoding="utf-8")
    monkeypatch.chdir(project)
    do(last)
    assert "instances.parquet: 0 added, 1 removed" in capsys.readouterr().out


@pytest.mark.parametrize("story", ["benchmark", "training"])
def test_the_profiles_of_the_stories_can_be_taken(story, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "params", tmp_path / "params")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    taken = [
        words
        for words in commands_of(ROOT / "docs" / "stories" / f"{story}.md")
        if words[:2] == ["config", "use"]
    ]
    assert taken
    for words in taken:
        assert run_cli(words) == 0, capsys.readouterr()
        load_config(Path("params.yaml"))


def test_the_examples_of_the_python_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small_benchmark(tmp_path)
    pinned(tmp_path)
    pinned(tmp_path / "lab" / "benchmark")
    cached(tmp_path / "lab" / "benchmark")
    captions = {
        "caption": [f"a cat and {i} dogs" for i in range(150)],
        "negative_caption": [f"a dog and {i % 7} cats {'too ' * (i % 3)}" for i in range(150)],
        "image_id": [f"{i}.jpg" for i in range(150)],
    }
    pd.DataFrame(captions).to_csv("captions.csv", index=False)
    folder = small_transformers.clip_folder(tmp_path / "clip")
    images = AutoImageProcessor.from_pretrained(folder, backend="pil")
    vision = {"image_size": SIZE, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
    text = {"context_length": 16, "width": 32, "heads": 2, "layers": 1}
    steps: list[int] = []
    names = {
        "model": open_clip.CLIP(embed_dim=16, vision_cfg=vision, text_cfg=text),
        "tokenizer": open_clip.SimpleTokenizer(context_length=16),
        "preprocess": open_clip.image_transform(SIZE, is_train=False),
        "loader": range(2000),
        "train_step": lambda model, batch: steps.append(batch),
        "clip": CLIPModel.from_pretrained(folder),
        "processor": CLIPProcessor(images, AutoTokenizer.from_pretrained(folder)),
        "encode_images": lambda images: np.array([np.asarray(i, float).mean((0, 1)) for i in images]),
        "encode_texts": lambda texts: np.array([[float(t.count(c)) for c in "abc"] for t in texts]),
    }
    blocks = blocks_of(ROOT / "docs" / "python.md", "python")
    for block in blocks:
        exec(compile(block, "python.md", "exec"), names)
    said = capsys.readouterr().out
    assert len(steps) == 2000
    assert "2000 {'accuracy': " in said
    assert len(names["rows"]) == 1
    assert not Path("mlruns").exists()
    for name in caramel.__all__:
        assert any(f"caramel.{name}(" in block for block in blocks), f"{name} is not shown"
