"""From candidates to a benchmark that people judged: the commands of docs/annotation.md, one after another."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from annotation_tasks import Client, serving
from project import ROOT, Project

from caramel import cli
from caramel.io.readers import read_json
from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table

pytestmark = pytest.mark.slow

SECRETS = {name: f"a-secret-of-the-tests-{name}" for name in ("a01", "a02")}
LATER = (
    "filter_images",
    "assemble",
    "image_scores",
    "validate_benchmark",
)  # stages between images and training
Judge = Callable[[str, list[str]], int]  # caption and SHA-256 of each image -> number of the option


def read_walk() -> list[list[str]]:
    """Return the commands of the first block of the section, as arguments."""
    text = (ROOT / "docs/annotation.md").read_text(encoding="utf-8")
    section = text.partition("## From candidates to a benchmark that people judged")[2]
    block = section.partition("```\n")[2].partition("```")[0]
    return [shlex.split(line) for line in block.replace("\\\n", "").splitlines() if line.strip()]


def draw(caption: str, sides: int) -> int:
    """Return a number in [0, sides) that depends on the caption alone."""
    return hashlib.sha256(caption.encode()).digest()[0] % sides


def choose(caption: str, images: list[str]) -> int:
    """Return the image that comes first by its SHA-256, or `None of them` for a quarter of the captions."""
    return len(images) if draw(caption, 4) == 0 else images.index(min(images))


def build_fits_judge(positives: set[str]) -> Judge:
    """Return an annotator who finds the positive image, and a fifth of the instances ambiguous."""

    def judge(caption: str, images: list[str]) -> int:
        known = [number for number, sha256 in enumerate(images) if sha256 in positives]
        return len(images) if draw(caption, 5) == 0 or len(known) != 1 else known[0]

    return judge


def answer_all(task: Path, judge: Judge) -> None:
    """Have two annotators answer a task over HTTP, from the captions and images that the server sends them."""

    def answer(client: Client, item: Mapping[str, Any]) -> int:
        (question,) = item["questions"]
        keys = [option["image"] for option in question["options"] if option["image"]]
        files = [client.session.get(f"{client.origin}/image/{key}", timeout=30).content for key in keys]
        return judge(question["caption"], [hashlib.sha256(data).hexdigest() for data in files])

    with serving(task, SECRETS) as origin:
        for name, secret in SECRETS.items():
            client = Client(origin, secret, page=f"page-{name}")
            items = client.start()
            while items:
                item, *items = items
                holding = [other["item_key"] for other in items]
                reply = client.answer(item["item_key"], answer(client, item), holding=holding)
                assert reply.status_code == 200, reply.text
                items += reply.json()["items"]


def walk(project: Project) -> None:
    """Run the commands of the docs in a project whose candidates are drawn."""
    drawn, source = (read_table(IMAGES, f"data/{stage}/images.parquet") for stage in ("synthesize", "scenes"))
    candidates = read_table(CANDIDATES, "data/synthesize/candidates.parquet")
    sha256 = dict(zip(drawn["image_id"], drawn["sha256"], strict=True))
    positives = {sha256[name] for name in candidates["positive_image_id"].dropna()} | set(source["sha256"])
    judges = {"choose.db": choose, "fits.db": build_fits_judge(positives)}
    for program, *arguments in read_walk():
        if arguments[:2] == ["config", "use"]:  # the test has the smoke profile's world
            sets = [*arguments[3:], "--set", "filter_images.keep_ambiguous=[]"]
            run_command("config", "use", "smoke", *sets)
        elif program == "dvc":
            project.stages(*LATER if arguments == ["repro"] else ())
        elif arguments[1] in judges:
            answer_all(Path(arguments[1]), judges[arguments[1]])
        else:
            run_command(*arguments)


def run_command(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments])
    assert not ended.value.code, arguments


def check_benchmark(folder: Path) -> None:
    """Compare the benchmark with what the annotators meant."""
    candidates = read_table(CANDIDATES, folder / "synthesize/candidates.parquet")
    images = read_table(IMAGES, folder / "synthesize/images.parquet").set_index("image_id")["sha256"]
    expected = {}
    for negative_id, rows in candidates.groupby("negative_id"):
        if draw(rows["prompt"].iloc[0], 4):
            expected[negative_id] = rows["image_id"].map(images).min()
    decisions = read_table(DECISIONS, "inputs/annotations/images/decisions.parquet")
    of_choose, of_fits = (decisions[decisions["task"] == task] for task in ("choose", "fits"))
    assert set(of_choose["item_id"]) == set(candidates["negative_id"])
    assert set(of_choose.loc[of_choose["decision"] != "none", "item_id"]) == set(expected)
    assert set(of_fits["item_id"]) == set(expected)
    assert set(of_fits["decision"]) == {"positive", "both"}
    clear = set(of_fits.loc[of_fits["decision"] == "positive", "item_id"])
    instances = read_table(INSTANCES, folder / "assemble/instances.parquet")
    shown = read_table(IMAGES, folder / "assemble/images.parquet").set_index("image_id")["sha256"]
    assert len(instances) > 20
    assert set(instances["instance_id"]) <= clear, (
        "no instance that people found ambiguous or without an image"
    )
    assert (instances["negative_image_id"].map(shown) == instances["instance_id"].map(expected)).all()
    people = read_json(folder / "filter_images/metrics.json")["people"]
    assert {task: record["krippendorff_alpha"] for task, record in people.items()} == {
        "choose": 1.0,
        "fits": 1.0,
    }
    assert (folder / "validate_benchmark/summary.json").is_file()


def test_the_docs_commands_lead_from_candidates_to_a_benchmark_that_people_judged(
    smoke: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = smoke.clone(tmp_path / "people")
    monkeypatch.chdir(project.folder)
    walk(project)
    check_benchmark(project.folder / "data")


def test_the_walk_has_a_command_for_each_step() -> None:
    steps = [" ".join(arguments[1:3]) for arguments in read_walk()]
    assert [step for step in steps if re.match("annotate (make|decide|answers|agreement)", step)] == [
        f"annotate {step}" for step in ("make", "answers", "agreement", "decide") * 2
    ]
    assert "annotate choose.db" in steps
    assert steps[-1] == "repro"
