import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chat_server import (
    CLOSE,
    COLOURS,
    HANG,
    ChatServer,
    Request,
    Response,
    always,
    colour_of,
    picture,
    refuses,
    right,
    right_letter,
    says,
)

from caramel import registry
from caramel.benchmarks.image_files import compute_content_keys
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import BackendError
from caramel.evaluation.benchmark_source import BenchmarkSource
from caramel.evaluation.evaluate import run_evaluation
from caramel.evaluation.results.answers import summarise_answers
from caramel.evaluation.scores import response_cache
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.scores.multiple_choice import collect_answers
from caramel.evaluation.scores.response_cache import PATIENCE, ask_questions, load_replies
from caramel.interfaces.benchmark import Benchmark, Comparisons, ImageFile, Rankings, Task
from caramel.interfaces.model import Question, Reply
from caramel.interfaces.settings import Compute, Execution
from caramel.models.chat.endpoint import KEY
from caramel.models.specs import open_model
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import ANSWERS, METRICS
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap

NAMES = list(COLOURS)
SUBTYPES = ("replace_att", "swap_att")
WORDINGS = ["plain", "fit", "check"]
KEY_VALUE = "sk-a-secret-of-the-test"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """A chat endpoint, and the family ``quick`` that asks it without long pauses."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.setitem(registry.FAMILIES.targets, "quick", "chat_server:QUICK")
    open_model.cache_clear()
    server = ChatServer()
    yield server
    server.close()
    open_model.cache_clear()


@pytest.fixture
def images(tmp_path: Path) -> list[ImageFile]:
    """One image of each colour."""
    for name in NAMES:
        (tmp_path / f"{name}.png").write_bytes(picture(name))
    return [ImageFile(str(tmp_path / f"{name}.png")) for name in NAMES]


def task(images: list[ImageFile], *, paraphrased: bool = False, second: bool = False) -> Comparisons:
    """Six instances, two to an image, whose captions name colours."""
    rows: list[dict[str, object]] = []
    for n in range(6):
        true, false = NAMES[n % 3], NAMES[(n + 1) % 3]
        rows.append(
            {
                "instance_id": f"i{n}",
                "image_id": f"{true}.png",
                "subsets": [SUBTYPES[n % 2].split("_")[0], SUBTYPES[n % 2]],
                "image": n % 3,
                "negative_image": (n + 1) % 3 if second else -1,
                "caption": f"A {true} square {n // 3}.",
                "negative_caption": f"A {false} square {n // 3}.",
                "caption2": f"The square {n // 3} is {true}." if paraphrased else None,
            }
        )
    return build_comparisons(rows, images)


def asked(server: ChatServer, task: Task, store: Path) -> pd.DataFrame:
    open_model.cache_clear()
    run = RunConfig(f"m=quick:test-model@{server.url}", Compute("cpu", "fp32"), None, str(store), "inline")
    rows = collect_answers(task, compute_content_keys(task.images), run, benchmark="b")
    check_table(ANSWERS, rows, "test")
    return rows


def judged(rows: pd.DataFrame) -> pd.DataFrame:
    bench = Benchmark("b", "", lambda data, images: None, (), "", SUBTYPES.__contains__)  # type: ignore[arg-type,return-value]
    found = summarise_answers(rows, {"b": bench}, bootstrap=Bootstrap(200, 0))
    check_table(METRICS, found, "test")
    return found.set_index(["metric", "subset"]).sort_index()


def test_with_a_paraphrase_the_odd_one_of_three_is_sought_in_every_order_and_wording(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    rows = asked(server, task(images, paraphrased=True), tmp_path / "store")
    expected = {
        (w, o, q)
        for w, o in zip([3, 3, 3, 4, 4, 4], ["NPP", "PNP", "PPN", "NPP0", "PNP0", "PPN0"], strict=True)
        for q in WORDINGS
    }
    for _, part in rows.groupby("instance_id"):
        assert set(zip(part["n_options"], part["order"], part["wording"], strict=True)) == expected
        assert len(part) == 18
    assert set(rows["image"]) == {"positive"}
    first = server_prompts(server, "A red square 0.", "The square 0 is red.", "A blue square 0.")
    assert len(first) == 18
    for request in first:
        shown = list(request.options.values())
        assert shown.index("A red square 0.") < shown.index("The square 0 is red.")
        assert colour_of(request.image) == "red"


def server_prompts(server: ChatServer, *captions: str) -> list[Request]:
    """Requests whose options are these captions, in any order, and perhaps `none`."""
    return [
        r
        for r in server.requests
        if {o for o in r.options.values() if not o.startswith("none")} == set(captions)
    ]


def test_without_a_paraphrase_the_true_one_of_two_is_sought(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    rows = asked(server, task(images), tmp_path / "store")
    assert len(rows) == 6 * 4 * 3
    assert set(zip(rows["n_options"], rows["order"], strict=True)) == {
        (2, "PN"),
        (2, "NP"),
        (3, "PN0"),
        (3, "NP0"),
    }
    found = judged(rows)
    assert found.loc[("choice_2way", "all"), "value"] == 1
    assert found.loc[("choice_3way_all_orders", "all"), "value"] == 1


def test_one_instance_without_a_paraphrase_makes_it_the_same_question_for_all(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    mixed = task(images, paraphrased=True)
    mixed.rows.loc[4, "caption2"] = None
    assert set(asked(server, mixed, tmp_path / "store")["order"]) == {"PN", "NP", "PN0", "NP0"}


def test_a_model_that_is_right_scores_one_everywhere(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    found = judged(asked(server, task(images, paraphrased=True), tmp_path / "store"))
    shares = found.index.get_level_values("metric").str.endswith("unparseable")
    assert (found.loc[~shares, "value"] == 1).all()
    assert (found.loc[shares, "value"] == 0).all()
    subsets = {"all", "replace", "replace_att", "swap", "swap_att", "macro"}
    assert set(found.loc["choice_4way_all_orders"].index) == subsets
    spread = {"order:NPP", "order:PNP", "order:PPN", *(f"wording:{w}" for w in WORDINGS)}
    assert set(found.loc["choice_3way"].index) == subsets | spread
    assert found.loc[("choice_3way", "all"), ["n", "ties", "unscored"]].tolist() == [6, 0, 0]
    assert found.loc[("choice_3way", "swap"), "n"] == 3


def test_the_bias_of_a_model_that_always_says_a_shows_in_the_spread(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    server.behave = always("A")
    found = judged(asked(server, task(images, paraphrased=True), tmp_path / "store"))["value"]
    assert [found[("choice_3way", f"order:{o}")] for o in ("NPP", "PNP", "PPN")] == [1, 0, 0]
    assert [found[("choice_4way", f"order:{o}0")] for o in ("NPP", "PNP", "PPN")] == [1, 0, 0]
    assert found[("choice_3way", "all")] == pytest.approx(1 / 3)
    assert found[("choice_3way_all_orders", "all")] == 0
    assert [found[("choice_3way", f"wording:{w}")] for w in WORDINGS] == pytest.approx([1 / 3] * 3)


def test_a_model_that_understands_one_wording_alone_shows_in_the_spread(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    server.behave = lambda r, n: says(right_letter(r) if "fit the picture" in r.prompt else "C")
    found = judged(asked(server, task(images, paraphrased=True), tmp_path / "store"))["value"]
    assert found[("choice_4way", "wording:fit")] == 1
    assert found[("choice_4way", "wording:plain")] == pytest.approx(1 / 3)
    assert found[("choice_4way_all_orders", "all")] == pytest.approx(1 / 3)  # one wording of three
    assert found[("choice_4way", "order:PPN0")] == 1


def test_none_is_an_outcome_of_its_own_and_not_right(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    server.behave = lambda r, n: says("None of them" if "D." in r.prompt else right_letter(r))
    rows = asked(server, task(images, paraphrased=True), tmp_path / "store")
    assert rows.groupby("n_options")["outcome"].unique().map(list).to_dict() == {3: ["right"], 4: ["none"]}
    found = judged(rows)["value"]
    assert (found[("choice_3way", "all")], found[("choice_4way", "all")]) == (1, 0)


def test_replies_that_name_no_option_are_counted_and_kept_as_they_came(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    server.behave = lambda r, n: says("Hm, café?" if "Here are" in r.prompt else right_letter(r))
    rows = asked(server, task(images, paraphrased=True), tmp_path / "store")
    odd = rows[rows["outcome"] == "unparseable"]
    assert set(odd["wording"]) == {"plain"}
    assert set(odd["reply"]) == {"Hm, café?"}
    found = judged(rows)
    assert found.loc[("choice_3way_unparseable", "all"), "value"] == pytest.approx(1 / 3)
    assert found.loc[("choice_3way", "all"), "value"] == pytest.approx(2 / 3)
    assert found.loc[("choice_3way", "all"), "unscored"] == 0


def test_an_instance_with_a_failed_question_is_unscored_and_asked_again_by_the_next_run(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    def behave(request: Request, number: int) -> Response | str:
        first = colour_of(request.image) == "red" and request.options["A"] == "A red square 0."
        return CLOSE if first and "Here are" in request.prompt else right(request, number)

    server.behave = behave
    rows = asked(server, task(images), tmp_path / "store")
    failed = rows[rows["outcome"] == "failed"]
    assert set(failed["instance_id"]) == {"i0"}
    assert failed[["order", "wording"]].apply(tuple, axis=1).tolist() == [("PN", "plain"), ("PN0", "plain")]
    assert failed["reply"].isna().all()
    found = judged(rows)
    assert found.loc[("choice_2way", "all"), ["value", "n", "unscored"]].tolist() == [1, 5, 1]
    assert found.loc[("choice_2way", "order:PN"), ["n", "unscored"]].tolist() == [5, 1]
    assert found.loc[("choice_2way", "order:NP"), ["n", "unscored"]].tolist() == [6, 0]
    assert found.loc[("choice_2way_unparseable", "all"), "n"] == 5
    server.behave, server.requests = right, []
    again = asked(server, task(images), tmp_path / "store")
    assert (again["outcome"] == "right").all()
    assert len(server.requests) == 2


def test_a_negative_image_is_asked_about_with_its_own_caption_as_the_true_one(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    server.behave = lambda r, n: says("A") if colour_of(r.image) == "green" else right(r, n)
    rows = asked(server, task(images, second=True), tmp_path / "store")
    assert len(rows) == 6 * 2 * 4 * 3
    found = judged(rows)["value"]
    # Of the three images, each the positive one of two instances and the negative one of two, one is answered
    # by its place alone: right in half of the orders.
    assert found[("choice_2way", "all")] == pytest.approx(5 / 6)
    assert found[("choice_2way_negative_image", "all")] == pytest.approx(5 / 6)
    assert found[("choice_2way_both_images", "all")] == pytest.approx(4 / 6)
    assert found[("choice_2way_negative_image_all_orders", "all")] == pytest.approx(4 / 6)
    green = rows[(rows["instance_id"] == "i1") & (rows["image"] == "negative") & (rows["n_options"] == 2)]
    assert dict(zip(green["order"], green["outcome"], strict=True)) == {"PN": "right", "NP": "wrong"}


def test_beside_a_paraphrase_the_negative_image_is_left_out(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    rows = asked(server, task(images, paraphrased=True, second=True), tmp_path / "store")
    assert set(rows["image"]) == {"positive"}


def made_up(images: int, seed: int = 0) -> pd.DataFrame:
    """Random answers on 40 instances of so many images; those of an image are alike."""
    rng = np.random.default_rng(seed)
    keys = [(order, wording) for order in ("PN", "NP") for wording in WORDINGS]
    outcomes = rng.choice(["right", "wrong", "none", "unparseable"], p=[0.7, 0.1, 0.1, 0.1], size=(images, 6))
    rows = [
        {
            "instance_id": f"i{n}",
            "model": "m",
            "benchmark": "b",
            "image_id": f"image{n % images}",
            "subsets": [],
            "image": "positive",
            "n_options": 2,
            "order": order,
            "wording": wording,
            "outcome": outcomes[n % images, at],
            "reply": "",
        }
        for n in range(40)
        for at, (order, wording) in enumerate(keys)
    ]
    return build_frame(ANSWERS, rows)


def test_shares_are_means_over_instances_of_what_their_answers_are() -> None:
    rows = made_up(40)
    found, right = judged(rows)["value"], rows["outcome"] == "right"
    assert found[("choice_2way", "all")] == pytest.approx(right.mean())
    assert found[("choice_2way", "order:NP")] == pytest.approx(right[rows["order"] == "NP"].mean())
    assert found[("choice_2way", "wording:check")] == pytest.approx(right[rows["wording"] == "check"].mean())
    assert found[("choice_2way_unparseable", "all")] == pytest.approx(
        (rows["outcome"] == "unparseable").mean()
    )
    both = [part["outcome"].eq("right").all() for _, part in rows.groupby(["instance_id", "wording"])]
    assert found[("choice_2way_all_orders", "all")] == pytest.approx(np.mean(both))


def test_intervals_are_clustered_on_the_image() -> None:
    many, few, one = (judged(made_up(n)).loc[("choice_2way", "all")] for n in (40, 5, 1))
    assert many["ci_low"] < many["value"] < many["ci_high"]
    assert few["ci_high"] - few["ci_low"] > 1.5 * (many["ci_high"] - many["ci_low"])
    assert np.isnan([one["ci_low"], one["ci_high"]]).all()


def test_a_run_that_broke_off_goes_on_with_what_is_missing(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    server.behave = lambda r, n: right(r, n) if n < 40 else refuses(401, "the money is gone")
    with pytest.raises(BackendError, match="the money is gone"):
        asked(server, task(images, paraphrased=True), tmp_path / "store")
    answered = {(r.prompt, r.image) for r in server.requests[:40]}
    assert len(answered) == 40
    server.behave, server.requests = right, []
    rows = asked(server, task(images, paraphrased=True), tmp_path / "store")
    assert (rows["outcome"] == "right").all()
    assert len(server.requests) == 6 * 18 - 40
    assert not answered & {(r.prompt, r.image) for r in server.requests}
    server.requests = []
    pd.testing.assert_frame_equal(asked(server, task(images, paraphrased=True), tmp_path / "store"), rows)
    assert server.requests == []


def test_a_killed_run_has_kept_every_reply_that_it_had(server: ChatServer, tmp_path: Path) -> None:
    server.behave = lambda r, n: says(f"A {r.prompt}") if n < 20 else HANG
    code = """if True:
        import sys
        from pathlib import Path
        from caramel.evaluation.scores.response_cache import ask_questions
        from caramel.models.chat.model import ChatModel
        from caramel.models.chat.concurrency import ConnectionSlots
        from caramel.models.chat.endpoint import Endpoint
        from caramel.interfaces.model import Question
        image = Path(sys.argv[2]).read_bytes()
        questions = {f"key{n}": Question(f"question {n}", lambda: image) for n in range(100)}
        endpoint = Endpoint("test-model", sys.argv[1], slots=ConnectionSlots(8))
        ask_questions(ChatModel("m", endpoint), questions, Path(sys.argv[3]))
    """
    (tmp_path / "red.png").write_bytes(picture("red"))
    words = [server.url, str(tmp_path / "red.png"), str(tmp_path / "replies")]
    process = subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 60
        while len(server.requests) < 20 + 8 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        assert len(server.requests) == 20 + 8  # all slots wait: what came before has been heard
    finally:
        process.kill()
        process.communicate()
    response_cache = {key: str(reply.text) for key, reply in load_replies(tmp_path / "replies")[0].items()}
    assert response_cache == {f"key{text.split()[-1]}": text for text in response_cache.values()}
    assert sorted(response_cache.values()) == sorted(f"A {r.prompt}" for r in server.requests[:20])


def test_a_half_written_line_is_asked_again(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    rows = asked(server, task(images), tmp_path / "store")
    (path,) = (tmp_path / "store").glob("*/replies/*.jsonl")
    text = path.read_bytes()
    for cut in range(1, len(text.splitlines()[-1]) + 1):
        path.write_bytes(text[:-cut])
        assert len(load_replies(path.parent)[0]) == len(rows) - (cut > 1)  # the newline alone may lack
    path.write_bytes(text[:-20])
    server.requests = []
    pd.testing.assert_frame_equal(asked(server, task(images), tmp_path / "store"), rows)
    assert len(server.requests) == 1
    assert len(load_replies(path.parent)[0]) == len(rows)


def test_another_image_prompt_model_or_endpoint_is_another_question(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    asked(server, task(images), tmp_path / "store")
    server.requests = []
    other = task(images)
    other.rows.loc[0, "caption"] = "A red square on white."
    asked(server, other, tmp_path / "store")
    assert len(server.requests) == 12  # those of one instance
    server.requests = []
    Path(images[0].path).write_bytes(picture("red", (9, 9)))
    asked(server, task(images), tmp_path / "store")
    assert len(server.requests) == 24  # those of the two instances of that image
    assert len(list((tmp_path / "store").iterdir())) == 1
    second = ChatServer()
    try:
        asked(second, task(images), tmp_path / "store")
        assert len(second.requests) == 72
    finally:
        second.close()
    assert len(list((tmp_path / "store").iterdir())) == 2


def test_equal_questions_are_asked_once(server: ChatServer, images: list[ImageFile], tmp_path: Path) -> None:
    twice = task(images)
    twice.rows.loc[3, ["caption", "negative_caption"]] = twice.rows.loc[0, ["caption", "negative_caption"]]
    rows = asked(server, twice, tmp_path / "store")
    assert len(rows) == 72
    assert len(server.requests) == 60


def test_an_endpoint_that_never_answers_is_an_error_that_names_the_problem(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    server.behave = lambda r, n: refuses(500, "out of order")
    with pytest.raises(BackendError, match=r"in a row.*status 500: out of order"):
        asked(server, task(images), tmp_path / "store")
    # Two attempts each; eight are under way at once, and each may begin one more before the end reaches it.
    assert len(server.requests) <= 2 * (PATIENCE + 2 * 8)
    few = task(images[:1])
    few = Comparisons(few.rows[:1], images[:1])
    with pytest.raises(BackendError, match=r"all 12 questions.*status 500: out of order"):
        asked(server, few, tmp_path / "store")
    server.close()
    with pytest.raises(BackendError, match="Connection"):
        asked(server, few, tmp_path / "store")


def test_after_answers_a_long_silence_ends_the_run_and_keeps_what_came(
    server: ChatServer, images: list[ImageFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_cache, "PATIENCE", 4)
    server.behave = lambda r, n: right(r, n) if n < 30 else CLOSE
    with pytest.raises(BackendError, match="questions in a row"):
        asked(server, task(images), tmp_path / "store")
    (folder,) = (tmp_path / "store").glob("*/replies")
    assert len(load_replies(folder)[0]) == 30


class Scripted:
    """A model whose replies are given, in order; None where there is none."""

    name, identity = "m", {"family": "scripted"}

    def __init__(self, script: Sequence[str | None]) -> None:
        self.script = script

    def answer_questions(self, questions: Sequence[Question], on_reply: Callable[[int, Reply], None]) -> None:
        for place, text in enumerate(self.script):
            on_reply(place, Reply(text, "" if text else "silence"))


def test_failures_between_answers_do_not_end_the_run(tmp_path: Path) -> None:
    questions = {f"key{n}": Question("?", lambda: b"") for n in range(4 * PATIENCE)}
    quiet: list[str | None] = [None] * (PATIENCE - 1)
    script = [*quiet, "A", *quiet, "B", *quiet, "C", *quiet, "A"]
    found = ask_questions(Scripted(script), questions, tmp_path / "replies")
    assert [reply.text for reply in found.values()] == ["A", "B", "C", "A"]
    with pytest.raises(BackendError, match=f"{PATIENCE} questions in a row.*silence"):
        ask_questions(Scripted(["A", *quiet, None]), questions, tmp_path / "others")


def test_other_tasks_are_an_error(server: ChatServer, images: list[ImageFile], tmp_path: Path) -> None:
    texts = task(images)
    texts.rows.loc[2, "image"] = -1
    alone = task(images)
    alone.rows.loc[2, "negative_caption"] = None
    ranking = Rankings(task(images).rows[["instance_id", "image_id", "subsets"]], images, [("a",)], [])
    for other in (texts, alone, ranking):
        with pytest.raises(BackendError, match="'b' does not support multiple choice"):
            asked(server, other, tmp_path / "store")
    assert server.requests == []


def test_an_evaluation_asks_a_chat_model_and_writes_the_key_nowhere(
    server: ChatServer, images: list[ImageFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.setenv(KEY, KEY_VALUE)
    folder = tmp_path / "data" / "sugarcrepe"
    folder.mkdir(parents=True)
    rows = {
        str(n): {
            "filename": f"{NAMES[n]}.png",
            "caption": f"A {NAMES[n]} square.",
            "negative_caption": "A pink square.",
        }
        for n in range(3)
    }
    (folder / "replace_att.json").write_text(json.dumps(rows))
    settings: dict[str, Any] = {
        "compute": Compute("cpu", "fp32"),
        "batch_size": None,
        "bootstrap": Bootstrap(50, 0),
        "execution": Execution("inline", tmp_path / "trials", 1.0),
        "store": tmp_path / "store",
    }
    found = run_evaluation(
        [f"quick:test-model@{server.url}"],
        [BenchmarkSource("sugarcrepe", str(folder), str(tmp_path))],
        **settings,
    )
    assert len(found.similarities) == 0
    assert len(found.answers) == 3 * 12
    assert (found.answers["outcome"] == "right").all()
    metrics = found.metrics.set_index(["metric", "subset"])["value"]
    assert metrics[("choice_2way", "all")] == metrics[("choice_3way", "replace_att")] == 1
    assert {r.headers["Authorization"] for r in server.requests} == {f"Bearer {KEY_VALUE}"}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "mlflow.db" for path in files)
    assert not [path for path in files if KEY_VALUE.encode() in path.read_bytes()]


def test_a_trial_with_failed_questions_is_not_done_and_the_same_command_asks_those_again(
    server: ChatServer, images: list[ImageFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"filename": f"{name}.png", "caption": f"A {name} square.", "negative_caption": f"A {other} square."}
        for name, other in zip(NAMES, NAMES[1:] + NAMES[:1], strict=True)
    ]
    (tmp_path / "data").mkdir()
    (tmp_path / "data/swap_att.json").write_text(json.dumps({str(n): row for n, row in enumerate(rows)}))
    settings: dict[str, Any] = {
        "compute": Compute("cpu", "fp32"),
        "batch_size": None,
        "bootstrap": Bootstrap(50, 0),
        "execution": Execution("inline", tmp_path / "trials", 1.0),
        "store": tmp_path / "store",
    }

    def outcomes_of_a_run() -> pd.Series:
        open_model.cache_clear()
        sources = [BenchmarkSource("sugarcrepe", str(tmp_path / "data"), str(tmp_path))]
        return run_evaluation([f"m=quick:test-model@{server.url}"], sources, **settings).answers["outcome"]

    def deaf_to_red(request: Request, number: int) -> Response | str:
        red = colour_of(request.image) == "red" and "Here are" in request.prompt
        return CLOSE if red else right(request, number)

    server.behave = deaf_to_red
    failed = int((outcomes_of_a_run() == "failed").sum())
    assert failed > 0
    server.behave, server.requests = right, []
    assert (outcomes_of_a_run() == "right").all()
    assert len(server.requests) == failed
    server.requests = []
    assert (outcomes_of_a_run() == "right").all()  # done
    assert server.requests == []


def goes_through(request: Request, number: int) -> Response:
    """Know the truth, and begin with option A: the reply is cut before any other option."""
    (letter, caption), *_ = request.options.items()
    verdict = (
        "This is true of the image." if colour_of(request.image) in caption else "This is incorrect: it is"
    )
    body = says(f"{letter}. {caption} {verdict}").body.replace(b'"stop"', b'"length"')
    return Response(body=body)


def test_a_reply_that_was_cut_is_unparseable_and_no_position_bias(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    server.behave = goes_through
    rows = asked(server, task(images), tmp_path / "store")
    assert set(rows["outcome"]) == {"unparseable"}
    assert set(rows["finish_reason"]) == {"length"}
    found = judged(rows)["value"]
    assert found[("choice_2way_unparseable", "all")] == 1
    assert found[("choice_2way", "order:PN")] == found[("choice_2way", "order:NP")] == 0
    pd.testing.assert_frame_equal(asked(server, task(images), tmp_path / "store"), rows)  # as kept


def test_a_whole_reply_that_rejects_option_a_is_not_its_choice(
    server: ChatServer, images: list[ImageFile], tmp_path: Path
) -> None:
    server.behave = lambda request, number: Response(
        body=goes_through(request, number).body.replace(b'"length"', b'"stop"')
    )
    rows = asked(server, task(images), tmp_path / "store")
    assert set(rows.loc[rows["order"].str.startswith("P"), "outcome"]) == {"right"}
    assert set(rows.loc[rows["order"].str.startswith("N"), "outcome"]) == {"unparseable"}
