"""A model whose spec names a published wording is asked in it alone, in its order, and its numbers are read."""

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from chat_server import COLOURS, ChatServer, always, picture
from PIL import Image

from caramel.benchmarks.image_files import compute_content_keys
from caramel.benchmarks.tasks import build_comparisons
from caramel.evaluation.compatibility import find_incompatibility
from caramel.evaluation.results.answers import summarise_answers
from caramel.evaluation.scores.choice_parser import parse_choice
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.scores.multiple_choice import collect_answers
from caramel.evaluation.scores.published_wordings import PUBLISHED_WORDINGS, replace_numbers
from caramel.interfaces.benchmark import Comparisons, ImageFile
from caramel.interfaces.settings import Compute
from caramel.models.chat.settings import split_wording
from caramel.models.specs import open_model
from caramel.registry import BENCHMARKS
from caramel.utils.resampling import Bootstrap

CAPTIONS = ("A red cup.", "The cup is red.", "A blue cup.")  # P1, P2, N


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    open_model.cache_clear()
    server = ChatServer(always("(1)"))
    yield server
    server.close()
    open_model.cache_clear()


@pytest.fixture
def task(tmp_path: Path) -> Comparisons:
    colour = next(iter(COLOURS))
    (tmp_path / "cup.png").write_bytes(picture(colour))
    first, second, negative = CAPTIONS
    row = {
        "instance_id": "i",
        "image_id": "cup.png",
        "subsets": ["swap_att"],
        "image": 0,
        "negative_image": -1,
    }
    row |= {"caption": first, "caption2": second, "negative_caption": negative}
    return build_comparisons([row], [ImageFile(str(tmp_path / "cup.png"))])


def collect(server: ChatServer, task: Comparisons, wording: str, store: Path) -> pd.DataFrame:
    spec = f"m=chat:test-model@{server.url}#no_seed,wording={wording}"
    run = RunConfig(spec, Compute("cpu", "fp32"), None, str(store), "inline")
    return collect_answers(task, compute_content_keys(task.images), run, benchmark="sugarcrepe_pp")


@pytest.mark.parametrize(
    ("wording", "order", "outcome"),
    [
        ("gpt4o_1", "NPP0", "right"),
        ("gpt4o_3", "NPP", "right"),
        ("bakllava_npp", "NPP", "right"),
        ("bakllava_pnp", "PNP", "wrong"),
        ("bakllava_ppn", "PPN", "wrong"),
    ],
)
def test_one_question_is_asked_as_printed(
    server: ChatServer, task: Comparisons, tmp_path: Path, wording: str, order: str, outcome: str
) -> None:
    rows = collect(server, task, wording, tmp_path / "store")
    assert rows[["order", "wording", "outcome"]].to_numpy().tolist() == [[order, wording, outcome]]
    (request,) = server.requests
    true = iter(CAPTIONS[:2])
    options = [CAPTIONS[2] if sign == "N" else next(true) for sign in order.strip("0")]
    assert f"(1) {options[0]}; (2) {options[1]}; (3) {options[2]}; provide output as" in request.prompt
    assert ("or none" in request.prompt) == order.endswith("0")
    assert "seed" not in request.body
    assert "wording" not in str(request.body)
    metrics = summarise_answers(
        rows, {"sugarcrepe_pp": BENCHMARKS["sugarcrepe_pp"]}, bootstrap=Bootstrap(10, 0)
    )
    subsets = metrics["subset"][metrics["subset"].str.startswith("wording:")]
    assert set(subsets) == {f"wording:{wording}"}


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("(2)", 1),
        ("2", 1),
        ("3.", 2),
        ("Caption 1", 0),
        ("(1) A blue cup.", 0),
        ("The answer is (3).", 2),
        ("none", 3),
        ("None of these captions.", 3),
        ("4", None),
        ("The cup holds 2 spoons.", None),
    ],
)
def test_numbers_and_none_are_read(reply: str, index: int | None) -> None:
    captions = (CAPTIONS[2], *CAPTIONS[:2])
    assert parse_choice(replace_numbers(reply), captions, form="odd", none=True) == index


def test_a_wording_is_split_from_the_other_settings() -> None:
    assert split_wording("m@http://a/v1#no_seed,wording=gpt4o_1") == ("m@http://a/v1#no_seed", "gpt4o_1")
    assert split_wording("m@http://a/v1#wording=x") == ("m@http://a/v1", "x")
    assert split_wording("m@http://a/v1#no_seed") == ("m@http://a/v1#no_seed", "")


def test_a_wording_that_is_unknown_or_does_not_fit_is_refused_before_any_work(task: Comparisons) -> None:
    benchmark = BENCHMARKS["sugarcrepe_pp"]
    spec = "chat:m@http://127.0.0.1:1/v1#wording="
    assert find_incompatibility(f"{spec}gpt4o_1", benchmark, task) is None
    plain = build_comparisons(task.rows.assign(caption2=None).to_dict("records"), task.images)
    unknown = f"its wording 'gpt5' is not one of {', '.join(PUBLISHED_WORDINGS)}. Give one of these."
    for any_task in (task, plain):
        assert str(find_incompatibility(f"{spec}gpt5", benchmark, any_task)).endswith(unknown)
    unfit = "its wording 'gpt4o_1' is about two true captions, and some instances do not have these. Leave one of them out."
    assert str(find_incompatibility(f"{spec}gpt4o_1", benchmark, plain)).endswith(unfit)


def build_instances(folder: Path, count: int) -> Comparisons:
    """Return ``count`` instances of each of two subsets, each with an image of its own."""
    rows, images = [], []
    for subset in ("swap_att", "swap_obj"):
        for number in range(count):
            path = folder / f"{subset}-{number}.png"
            Image.new("RGB", (8, 8), (number, len(images), 0)).save(path)
            row = {"instance_id": path.stem, "image_id": path.name, "subsets": [subset], "negative_image": -1}
            captions = dict(
                zip(
                    ("caption", "caption2", "negative_caption"),
                    (f"{path.stem} {n}" for n in "pqn"),
                    strict=True,
                )
            )
            rows.append(row | captions | {"image": len(images)})
            images.append(ImageFile(str(path)))
    return build_comparisons(rows, images)


@pytest.mark.parametrize("shots", [4, 8])
def test_examples_are_other_instances_of_the_subset_with_their_right_replies(
    server: ChatServer, tmp_path: Path, shots: int
) -> None:
    task = build_instances(tmp_path, shots + 2)
    rows = collect(server, task, f"gpt4o_3_{shots}shot", tmp_path / "store")
    assert rows["outcome"].eq("right").all()  # the server always says (1), and the negative stands first
    assert len(server.requests) == len(task.rows)
    shown: dict[str, set[str]] = {subset: set() for subset in ("swap_att", "swap_obj")}
    for request in server.requests:
        *examples, asked = request.body["messages"]
        assert [turn["role"] for turn in examples] == ["user", "assistant"] * shots
        name = asked["content"][1]["text"].partition("(1) ")[2].partition(" ")[0]
        images = [asked["content"][0]["image_url"]["url"]]
        for place in range(shots):
            (image, text), reply = examples[2 * place]["content"], examples[2 * place + 1]["content"]
            images.append(image["image_url"]["url"])
            options = re.findall(r"\((\d)\) (\S+) (\w)", text["text"].partition("; provide")[0])
            assert options[place % 3] == (reply[1], options[0][1], "n")
            assert options[0][1] != name
            assert options[0][1].rpartition("-")[0] == name.rpartition("-")[0]
            shown[name.rpartition("-")[0]].add(options[0][1])
        assert len(set(images)) == shots + 1
    assert all(
        len(names) == shots + 1 for names in shown.values()
    )  # the same for all, but the one asked about
    collect(server, task, f"gpt4o_3_{shots}shot", tmp_path / "store")
    assert len(server.requests) == len(task.rows)  # known replies are not asked for again
    collect(server, task, "gpt4o_3", tmp_path / "store")
    assert len(server.requests) == 2 * len(task.rows)  # one without examples is another question


def test_a_subset_with_too_few_instances_for_the_examples_is_refused_before_any_work(tmp_path: Path) -> None:
    task = build_instances(tmp_path, 4)
    spec = "chat:m@http://127.0.0.1:1/v1#wording=gpt4o_3_4shot"
    reason = str(find_incompatibility(spec, BENCHMARKS["sugarcrepe_pp"], task))
    assert "shows 4 other instances" in reason
    assert "swap_att has 4 in all" in reason
    task = build_instances(tmp_path, 5)
    assert find_incompatibility(spec, BENCHMARKS["sugarcrepe_pp"], task) is None
