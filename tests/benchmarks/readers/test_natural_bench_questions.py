from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from published import DUAL, MATCHER, Instance, agree, drawn, one_by_one, with_nan

from caramel.benchmarks.readers.natural_bench_questions import BENCHMARK
from caramel.errors import DataError

COUNT = 20
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
NAMES = [f"Image_{i}_Question_{q}" for q in (0, 1) for i in (0, 1)]


def row(n: int) -> dict[str, Any]:
    """Return one row as the card describes it: of number 3 both images are the same."""
    yes, no = ("Yes", "No") if n % 2 else ("A", "B")
    options = "" if n % 2 else " Option: A:a dog;B:a cat;"
    return {
        "Index": 100 + n,
        "Image_0": {"bytes": drawn(2 * n, "JPEG"), "path": None},
        "Image_1": {"bytes": drawn(2 * n + (n != 3), "JPEG"), "path": None},
        "Question_0": f"Does animal {n} sleep?{options}",
        "Question_1": f"Is animal {n} awake now?{options}",
        **dict(zip(NAMES, (yes, no, no, yes), strict=True)),
        "Question_Type": "yes_no" if n % 2 else "multiple_choice",
        "Source": "Flickr",
    }


def release(folder: Path, **changes: Any) -> Path:
    """Write two files; ``changes`` are of the first row."""
    (folder / "data").mkdir(parents=True)
    rows = [row(n) for n in range(COUNT)]
    rows[0] |= changes
    for k in (0, 1):
        part = pa.Table.from_pylist(rows[10 * k : 10 * k + 10])
        for name in ("Image_0", "Image_1"):
            part = part.set_column(part.column_names.index(name), name, part.column(name).cast(IMAGE))
        pq.write_table(part, folder / f"data/train-0000{k}-of-00002.parquet", row_group_size=4)
    return folder


def instances() -> list[Instance]:
    return [
        Instance(
            f"natural_bench-{one['Index']}-{q}",
            str(one["Index"]),
            (one["Question_Type"],),
            one["Image_0"]["bytes"],
            f"{one[f'Question_{q}']} {one[f'Image_0_Question_{q}']}",
            f"{one[f'Question_{q}']} {one[f'Image_1_Question_{q}']}",
            negative_image=one["Image_1"]["bytes"],
        )
        for one in map(row, range(COUNT))
        for q in (0, 1)
    ]


@pytest.mark.parametrize("spec", [DUAL, MATCHER])
def test_every_question_is_judged_as_published(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    with_nan(monkeypatch)
    data = release(tmp_path / "questions")
    _, verdicts = agree(BENCHMARK, data, data, instances(), spec, tmp_path / "store")
    assert {True, False} <= verdicts


def test_i2t_is_the_accuracy_of_questions_of_the_authors_code(tmp_path: Path, families: None) -> None:
    data = release(tmp_path / "questions")
    score, _ = one_by_one(DUAL)
    right = 0
    answered = 0
    for one in map(row, range(COUNT)):
        for q in (0, 1):
            said = []
            for i in (0, 1):
                options = {one[f"Image_{k}_Question_{q}"] for k in (0, 1)}
                scores = {
                    a: score(f"{one[f'Question_{q}']} {a}", one[f"Image_{i}"]["bytes"]) for a in options
                }
                best = max(scores.values())
                said.append([a for a, s in scores.items() if s == best] == [one[f"Image_{i}_Question_{q}"]])
            right += all(said)  # a question is right where its answers on both images are
            answered += sum(said)
    metrics, _ = agree(BENCHMARK, data, data, instances(), DUAL, tmp_path / "store")
    shown = metrics[metrics["subset"] == "all"].set_index("metric")["value"]
    assert shown["i2t"] == pytest.approx(right / (2 * COUNT))
    assert (shown["i_pos2t"] + shown["i_neg2t"]) / 2 == pytest.approx(answered / (4 * COUNT))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Question_Type": "open"}, "'open'. Expected one of yes_no, multiple_choice"),
        ({"Image_0_Question_1": "A"}, "the answers to 'Question_1' must be"),
        ({"Image_1_Question_0": "Yes"}, "the answers to 'Question_0' must be"),
        ({"Question_1": ""}, "field 'Question_1' must be text"),
    ],
)
def test_a_broken_row_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    data = release(tmp_path, **changes)
    with pytest.raises(DataError, match=rf"row 0.*{message}"):
        BENCHMARK.load_rows(data, data)


def test_a_folder_without_the_files_is_told_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)holds none of train-\*\.parquet.*BaiqiL/NaturalBench"):
        BENCHMARK.load_rows(tmp_path, tmp_path)
