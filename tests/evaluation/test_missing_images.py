"""A benchmark some of whose images are missing: an error, or by choice a score of what is there, which says so."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from chat_server import ChatServer, always, picture
from commands import call_command, list_eval_arguments
from small_releases import write_sugarcrepe

import caramel
from caramel.benchmarks.present_images import exclude_missing
from caramel.benchmarks.tasks import Choice, build_choices
from caramel.errors import ConfigError, DataError
from caramel.evaluation.benchmark_source import hash_task, locate_benchmark, read_task, select_scorable
from caramel.interfaces.benchmark import ImageFile

N, MISSING = 24, 3  # instances, and the image that is missing, of eight


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small SugarCrepe, of whose eight images one is missing: two or three instances of each subtype lack theirs."""
    (tmp_path / "images").mkdir()
    pairs = [(f"A red car number {n}.", f"A blue car number {n}.") for n in range(N // 2)]
    write_sugarcrepe(tmp_path / "data/sugarcrepe", dict.fromkeys(("replace_att", "swap_att"), pairs), 8)
    for n in range(8):
        if n != MISSING:
            (tmp_path / f"images/{n:012}.jpg").write_bytes(picture("red", (8 + n, 8), "JPEG"))
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ChatServer(always("A"))
    yield server
    server.close()


def evaluate(folder: Path, model: str, *more: str) -> tuple[int, str, str]:
    done = call_command(folder, *list_eval_arguments(model), "--out", "out", *more)
    return done.returncode, done.stdout, done.stderr


def test_by_default_a_missing_image_is_an_error_that_names_the_choice(
    folder: Path, clip_folder: Path
) -> None:
    code, _, err = evaluate(folder, f"tiny=open_clip:{clip_folder}")
    assert code == 1
    assert "1 of 8 images are missing or corrupt; nothing was scored." in err
    assert "With --missing skip, instances with a missing image get no score and all others are scored" in err
    assert not (folder / "out/metrics.csv").exists()


def test_what_is_there_is_scored_and_every_table_says_of_how_much(folder: Path, clip_folder: Path) -> None:
    code, out, err = evaluate(folder, f"tiny=open_clip:{clip_folder}", "--missing", "skip")
    assert code == 0, err
    assert "sugarcrepe: 1 of 8 images are missing; 4 of 24 instances have no score." in err
    assert re.search(r"^all .* 20 +\d+ +4$", out, re.MULTILINE)
    assert "Unscored: instances without a score, which are excluded from all figures." in out
    metrics = pd.read_csv(folder / "out/metrics.csv").set_index("subset")
    assert metrics["n"].to_dict() == {
        "all": 20,
        "macro": 20,
        "replace": 10,
        "swap": 10,
        "replace_att": 10,
        "swap_att": 10,
    }
    assert set(metrics["unscored"]) == {4, 2}
    rows = pd.read_parquet(folder / "out/similarities.parquet")
    unscored = rows[rows["s_c0_i0"].isna()]
    assert set(unscored["image_id"]) == {f"{MISSING:012}.jpg"}
    assert (len(rows), len(unscored), unscored["images_hash"].isna().all()) == (24, 4, True)
    assert unscored["texts_hash"].nunique() == 2  # 3 and 11, in both subtypes
    table = call_command(folder, "table", "out", "--benchmark", "sugarcrepe", "--subset", "all")
    assert "| Instances | 20 of 7,511 |" in table.stdout
    assert "Omitted: published figures of sets that were not measured completely: all." in table.stdout
    again = call_command(folder, "metrics", "--benchmark", "sugarcrepe", "out", "--out", "again")
    assert re.search(r"^all .* 20 +\d+ +4$", again.stdout, re.MULTILINE)
    (folder / f"images/{MISSING:012}.jpg").write_bytes(picture("blue", (8, 8), "JPEG"))
    assert evaluate(folder, f"tiny=open_clip:{clip_folder}", "--missing", "skip")[0] == 0
    assert set(pd.read_csv(folder / "out/metrics.csv")["unscored"]) == {0}


def test_a_chat_model_is_not_asked_of_missing_images_and_not_asked_again(
    folder: Path, server: ChatServer
) -> None:
    for _ in range(2):
        code, out, err = evaluate(folder, f"chat:m@{server.url}", "--missing", "skip")
        assert code == 0, err
        assert re.search(r"^all .* 20 +0 +4$", out, re.MULTILINE)
        assert (
            len(server.requests) == 10 * 2 * 2 * 3
        )  # distinct captions, orders, with `none` or not, wordings
    answers = pd.read_parquet(folder / "out/answers.parquet")
    assert set(answers.loc[answers["outcome"] == "failed", "image_id"]) == {f"{MISSING:012}.jpg"}


def test_in_python_it_is_the_same_choice(folder: Path) -> None:
    arguments = {"data": folder / "data", "images": folder / "images"}
    with pytest.raises(DataError, match="1 of 8 images"):
        caramel.load_benchmark("sugarcrepe", **arguments)
    with pytest.raises(ConfigError, match="'fail' or 'skip'"):
        caramel.load_benchmark("sugarcrepe", missing="ignore", **arguments)  # type: ignore[arg-type]
    benchmark = caramel.load_benchmark("sugarcrepe", missing="skip", **arguments)

    def encode(items: list[object]) -> np.ndarray:
        return np.ones((len(items), 4))

    scores = caramel.score((encode, encode), benchmark, n_bootstrap=100)
    overall = scores.metrics.set_index("subset").loc["all"]
    assert (len(benchmark), overall["n"], overall["unscored"]) == (20, 20, 4)


def test_a_corrupt_image_is_an_error_in_any_case(folder: Path) -> None:
    (folder / f"images/{0:012}.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"1 of 7 images.*\n.*corrupt"):
        caramel.load_benchmark("sugarcrepe", folder / "data", images=folder / "images", missing="skip")


def test_where_no_instance_is_complete_the_missing_images_are_listed(folder: Path) -> None:
    (folder / "images").rename(folder / "elsewhere")
    with pytest.raises(DataError, match="8 of 8 images"):
        caramel.load_benchmark("sugarcrepe", folder / "data", images=folder / "images", missing="skip")


def test_the_hash_of_a_task_depends_on_the_captions_of_instances_that_are_left_out(folder: Path) -> None:
    source = locate_benchmark("sugarcrepe", folder / "data", folder / "images", "skip")
    task = select_scorable(read_task(source), source, True)
    assert task.left_out is not None
    changed = task.left_out.rows.assign(caption="another caption")
    assert hash_task(replace(task, left_out=task.left_out._replace(rows=changed))) != hash_task(task)
    hashes = ["x"] * len(task.left_out.rows)
    assert hash_task(replace(task, left_out=task.left_out._replace(texts_hash=hashes))) != hash_task(task)


def test_a_query_among_images_is_left_out_if_any_candidate_is_missing(tmp_path: Path) -> None:
    files = [(name, ImageFile(str(tmp_path / name))) for name in "abc"]
    for name in "ab":
        (tmp_path / name).touch()
    task = build_choices(
        [
            Choice("to texts", "a", [], "i2t", "a", ["x", "y"], 0),
            Choice("of a missing one", "c", [], "i2t", "c", ["x", "y"], 0),
            Choice("to images", "a", [], "t2i", "x", ["a", "b"], 0),
            Choice("among a missing one", "a", [], "t2i", "x", ["a", "c"], 0),
        ],
        files,
    )
    part = exclude_missing(task)
    assert part.rows["instance_id"].tolist() == ["to texts", "to images"]
    assert part.left_out is not None
    assert part.left_out.rows["instance_id"].tolist() == ["of a missing one", "among a missing one"]
    assert (part.left_out.missing_images, part.left_out.images) == (1, 3)
    assert [Path(image.path).name for image in part.images] == ["a", "b"]
