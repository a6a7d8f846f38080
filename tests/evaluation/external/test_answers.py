"""GPT-4V's answers as SugarCrepe's authors publish them: an object of rows, a folder per order of the options."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from caramel.errors import DataError
from caramel.evaluation.external.runs import compute_file_metrics
from caramel.registry import BENCHMARKS
from caramel.utils.resampling import Bootstrap

SUGARCREPE = BENCHMARKS["sugarcrepe"]
# Of each instance: whether the answer is right where the caption stands first, and second; None: no option is named.
SWAP: list[tuple[Any, Any]] = [(True, True), (True, False), (False, True), (None, True), (False, False)]
ADD: list[tuple[Any, Any]] = [(True, True), (True, None), (True, False)]


def row(number: int, correct: bool | None, first: bool) -> dict[str, Any]:
    """Return a row as released; ``first``: the caption is option (1)."""
    caption, negative = f"A dog sees cat {number}.", f"A cat sees dog {number}."
    option = "1" if bool(correct) == first else "2"
    said = "Neither (1) nor (2) is right." if correct is None else f"({option})"
    meant = "" if correct is None else caption if correct else negative
    return {
        "answer": {"free_form_answer": said, "multiple_choice_answer": meant},
        "caption": caption,
        "negative_caption": negative,
        "filename": f"{number % 3:012}.jpg",
        "correct": bool(correct),
    }


def written(folder: Path, subtype: str, rows: list[tuple[Any, Any]], place: int, **more: Any) -> Path:
    """Write the file of one order: the keys are those of the other's, in another order."""
    found = {str(n): row(n, pair[place], first=place == 0) for n, pair in enumerate(rows)}
    items = list(found.items())[:: 1 if place == 0 else -1]
    path = folder / ("first", "second")[place] / f"gpt4v-{subtype}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**dict(items), **more}, indent=4))
    return path


def released(folder: Path) -> list[Path]:
    paths = [
        written(folder, name, rows, place)
        for name, rows in {"swap_obj": SWAP, "add_att": ADD}.items()
        for place in (0, 1)
    ]
    written(folder, "swap_obj", SWAP, 0, accuracy=0.4)  # one file ends with its own figure
    return paths


def values(paths: list[Path]) -> Any:
    found = compute_file_metrics(paths, SUGARCREPE, bootstrap=Bootstrap(100, 0))
    return found, found.set_index(["subset", "metric"])["value"]


def share(answers: list[Any]) -> float:
    return sum(answer is True for answer in answers) / len(answers)


def test_a_file_that_ends_with_its_own_accuracy_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, "swap_obj", SWAP, 0, accuracy=0.4)
    found, value = values([path])
    assert value["order:PN", "choice_2way"] == value["all", "choice_2way"] == pytest.approx(0.4)
    assert found.set_index(["subset", "metric"]).loc[("all", "choice_2way"), "n"] == len(SWAP)


def test_verdicts_without_answers_may_end_with_their_accuracy_too(tmp_path: Path) -> None:
    rows = {str(n): {"filename": f"{n}.jpg", "correct": n > 0} for n in range(4)}
    (tmp_path / "m-swap_obj.json").write_text(json.dumps({**rows, "accuracy": 0.75}))
    assert values([tmp_path / "m-swap_obj.json"])[1]["all", "accuracy"] == 0.75
    (tmp_path / "m-swap_obj.json").write_text(json.dumps({**rows, "accuracy": "high"}))
    with pytest.raises(DataError, match="'accuracy' must be an object of fields, not 'high'"):
        values([tmp_path / "m-swap_obj.json"])


def test_answers_that_a_table_holds_as_text_are_an_error_and_not_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame([row(n, True, first=True) for n in range(3)])
    frame.to_csv(tmp_path / "m.csv", index=False)
    with pytest.raises(
        DataError, match=r"row 1 .* field 'answer' must be an object with fields, not \"\{'free"
    ):
        values([tmp_path / "m.csv"])


def test_both_orders_of_the_options_are_one_result_per_instance(tmp_path: Path) -> None:
    found, value = values(released(tmp_path))
    assert set(found["model"]) == {"gpt4v"}
    whole = found.set_index(["subset", "metric"])
    for subset, rows in {"swap_obj": SWAP, "add": ADD, "all": SWAP + ADD}.items():
        assert whole.loc[(subset, "choice_2way"), "n"] == len(rows)
        assert value[subset, "choice_2way"] == pytest.approx(share([a for pair in rows for a in pair]))
        both = [all(answer is True for answer in pair) for pair in rows]
        assert value[subset, "choice_2way_all_orders"] == pytest.approx(share(both))
        odd = [answer is None for pair in rows for answer in pair]
        assert value[subset, "choice_2way_unparseable"] == pytest.approx(share(odd))
    assert value["order:PN", "choice_2way"] == pytest.approx(share([pair[0] for pair in SWAP + ADD]))
    assert value["order:NP", "choice_2way"] == pytest.approx(share([pair[1] for pair in SWAP + ADD]))
    assert value["macro", "choice_2way"] == pytest.approx(
        (share([a for p in SWAP for a in p]) + share([a for p in ADD for a in p])) / 2
    )


def test_an_instance_with_an_answer_in_one_order_alone_is_unscored_and_a_note_says_so(tmp_path: Path) -> None:
    released(tmp_path)
    found, value = values(
        [*sorted(tmp_path.glob("first/*.json")), written(tmp_path, "swap_obj", SWAP[:4], 1)]
    )
    rows = found.set_index(["subset", "metric"])
    assert rows.loc[("swap_obj", "choice_2way"), ["n", "unscored"]].tolist() == [4, 1]
    assert rows.loc[("add_att", "choice_2way"), ["n", "unscored"]].tolist() == [0, 3]
    assert value["order:PN", "choice_2way"] == pytest.approx(share([pair[0] for pair in SWAP + ADD]))
    assert "Instances of model 'gpt4v' with an answer in only one order of the options: 4" in "".join(
        found.attrs["notes"]
    )


def test_one_order_twice_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "swap_obj", SWAP, 0)
    with pytest.raises(DataError, match=r"Duplicate answers \(5\) of model 'gpt4v' in one order"):
        values([path, path])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"correct": "maybe"}, "row '1': 'maybe' in column 'correct' is not a verdict"),
        (
            {"answer": {"free_form_answer": 3, "multiple_choice_answer": ""}},
            "field 'free_form_answer' must be",
        ),
        ({"caption": 3}, "field 'caption' must be text"),
        ({"answer": None}, "row '1', field 'answer' must be an object with fields, not None"),
        (
            {"answer": {"free_form_answer": "(1)"}},
            "row '1', field 'answer' has no field 'multiple_choice_answer'",
        ),
    ],
)
def test_a_broken_answer_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = written(tmp_path, "swap_obj", SWAP, 0)
    rows = json.loads(path.read_text())
    rows["1"] |= change
    path.write_text(json.dumps(rows))
    with pytest.raises(DataError, match=message):
        values([path])
