import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caramel.errors import DataError
from caramel.evaluation.external.runs import compute_file_metrics, read_runs, read_scores
from caramel.evaluation.results.summary import summarise_similarities
from caramel.registry import BENCHMARKS
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import ANSWERS, METRICS, SIMILARITIES
from caramel.schemas.io import build_frame, write_table
from caramel.utils.resampling import Bootstrap

SUGARCREPE, PAIRS = BENCHMARKS["sugarcrepe"], BENCHMARKS["bivlc"]
BIVLC = ("text_score_i0", "text_score_i1", "image_score_c0", "image_score_c1", "text_score", "image_score")
LATER = ("Ipos_2T", "Ineg_2T", "Tpos_2I", "Tneg_2I", "I2T", "T2I", "group_score")


def similarities(model: str, seed: int, n: int = 30, benchmark: str = "bivlc") -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(rng.normal(size=(n, 4)), columns=["s_c0_i0", "s_c1_i0", "s_c0_i1", "s_c1_i1"])
    rows = rows.assign(
        instance_id=[f"i{i}" for i in range(n)],
        image_id=[f"{i % 7}.jpg" for i in range(n)],
        subsets=[["swap", "swap_obj"] if i % 2 else ["add", "add_att"] for i in range(n)],
        model=model,
        benchmark=benchmark,
    )
    return build_frame(SIMILARITIES, rows)


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    return path


def values(paths: list[Path], of: Any = SUGARCREPE) -> pd.DataFrame:
    found = compute_file_metrics(paths, of, bootstrap=Bootstrap(100, 0))
    check_table(METRICS, found, "test")
    return found.set_index(["model", "subset", "metric"])


def released(n: int = 12) -> list[dict[str, Any]]:
    """Return rows as in results/BiVLC_ViT-B-32.csv."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n):
        fine = {name: bool(rng.random() < 0.7) for name in BIVLC[:4]}
        text = fine["text_score_i0"] and fine["text_score_i1"]
        image = fine["image_score_c0"] and fine["image_score_c1"]
        whole = {"text_score": text, "image_score": image, "group_score": text and image}
        rows.append(
            {
                "image": f"<PIL.JpegImagePlugin.JpegImageFile image mode=RGB size=500x332 at 0x7F{i}>",
                "caption": "A man alone.",
                "type": "add" if i < 4 else "replace",
                "subtype": "obj",
                **fine,
                **whole,
            }
        )
    return rows


def test_our_file_and_its_folder_give_what_eval_gave(tmp_path: Path) -> None:
    rows = pd.concat(
        [similarities("m", 0), similarities("o", 1), similarities("m", 2, benchmark="winoground")]
    )
    path = write_table(SIMILARITIES, rows, tmp_path / "similarities.parquet")
    ours = rows[rows["benchmark"] == "bivlc"]
    expected = summarise_similarities(ours, {"bivlc": PAIRS}, bootstrap=Bootstrap(100, 0))
    for given in (path, tmp_path):
        found = compute_file_metrics([given], PAIRS, bootstrap=Bootstrap(100, 0))
        pd.testing.assert_frame_equal(found, expected)
    renamed = path.rename(tmp_path / "other.parquet")
    pd.testing.assert_frame_equal(
        compute_file_metrics([renamed], PAIRS, bootstrap=Bootstrap(100, 0)), expected
    )


def test_answers_are_judged_as_answers(tmp_path: Path) -> None:
    rows = [
        {
            "instance_id": f"i{i}",
            "model": "chat",
            "benchmark": "sugarcrepe",
            "image_id": f"{i}.jpg",
            "subsets": ["swap_obj"],
            "image": "positive",
            "n_options": 2,
            "order": order,
            "wording": "match",
            "outcome": "right" if i < 3 else "wrong",
            "reply": "1",
        }
        for i in range(4)
        for order in ("PN", "NP")
    ]
    write_table(ANSWERS, build_frame(ANSWERS, rows), tmp_path / "answers.parquet")
    assert values([tmp_path]).loc[("chat", "all", "choice_2way"), "value"] == 0.75


def test_answers_of_a_model_may_be_spread_over_files_but_not_given_twice(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"instance_id": f"i{i}", "image_id": f"{i}.jpg", "subsets": ["swap_obj"], "order": order, "reply": "1",
         "outcome": "right" if i < 3 else "wrong"}
        for i in range(4) for order in ("PN", "NP")
    ).assign(model="chat", benchmark="sugarcrepe", image="positive", n_options=2, wording="match")  # fmt: skip
    halves = (rows[:4], rows[4:])
    for name, part in zip("ab", halves, strict=True):
        write_table(ANSWERS, build_frame(ANSWERS, part), tmp_path / name / "answers.parquet")
    found = values([tmp_path / "a", tmp_path / "b"])
    assert found.index.is_unique
    assert found.loc[("chat", "all", "choice_2way"), ["value", "n"]].tolist() == [0.75, 4]
    twice = (
        r"Answers are given twice \(4\), such as that of model 'chat' to instance 'i2'. Give each file once"
    )
    with pytest.raises(DataError, match=twice):
        values([tmp_path / "a", tmp_path / "b", tmp_path / "b"])


@pytest.mark.parametrize(
    ("row", "column", "value", "message"),
    [
        (1, "outcome", "rigth", r"(?s)'outcome' has invalid values.*'rigth'.*Choices: right"),
        (1, "order", "PN", r"duplicate keys .*: 1\n  - \('i0', 'chat', 'sugarcrepe', 'positive', 2, 'PN'"),
        (
            1,
            "order",
            "NPP",
            "instances whose order of options does not have their number of options: 1. The first is 'i0'",
        ),
        (1, "image_id", "other.jpg", "instances with several images: 1. The first is 'i0'"),
        (None, "", "", "instances that lack answers which others have: 1. The first is 'i0'"),
    ],
)
def test_answers_that_do_not_agree_are_errors(
    tmp_path: Path, row: int | None, column: str, value: str, message: str
) -> None:
    asked = {
        "model": "chat",
        "benchmark": "sugarcrepe",
        "subsets": ["swap_obj"],
        "image": "positive",
        "n_options": 2,
    }
    rows = pd.DataFrame(
        [
            {**asked, "instance_id": f"i{i}", "image_id": f"{i}.jpg", "order": order}
            for i in range(3)
            for order in ("PN", "NP")
        ]
    )
    rows = build_frame(ANSWERS, rows.assign(wording="match", outcome="right", reply="1"))
    if row is None:
        rows = rows.drop(index=0)
    else:
        rows.loc[row, column] = value
    rows.to_parquet(tmp_path / "answers.parquet")
    with pytest.raises(DataError, match=message):
        values([tmp_path])


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "parquet"])
def test_scores_of_others_are_judged_as_ours(tmp_path: Path, suffix: str) -> None:
    ours = similarities("m", 0, benchmark="sugarcrepe")[["instance_id", "image_id", "s_c0_i0", "s_c1_i0"]]
    ours.loc[3, "s_c1_i0"] = ours.loc[3, "s_c0_i0"]
    rows = ours.rename(columns={"instance_id": "id", "image_id": "filename"}).assign(
        category="c", split="test"
    )
    path = tmp_path / f"theirs.{suffix}"
    {
        "csv": lambda: rows.to_csv(path, index=False),
        "json": lambda: rows.to_json(path, orient="records", double_precision=15),
        "jsonl": lambda: rows.to_json(path, orient="records", lines=True, double_precision=15),
        "parquet": lambda: pq.write_table(pa.Table.from_pandas(rows), path),
    }[suffix]()
    found = values([path])
    row = found.loc[("theirs", "all", "accuracy")]
    assert row["value"] == pytest.approx((ours["s_c0_i0"] > ours["s_c1_i0"]).mean())
    assert (row["n"], row["ties"]) == (30, 1)
    assert set(found.index.get_level_values("subset")) == {"all", "c", "test"}


def test_the_released_file_of_bivlc_is_read(tmp_path: Path) -> None:
    rows = released()
    path = write_csv(tmp_path / "BiVLC_ViT-B-32.csv", rows)
    found = values([path], PAIRS)
    names = ("i_pos2t", "i_neg2t", "t_pos2i", "t_neg2i", "i2t", "t2i", "group")
    for column, metric in zip((*BIVLC, "group_score"), names, strict=True):
        for subset, part in {"all": rows, "add_obj": rows[:4], "add": rows[:4], "replace": rows[4:]}.items():
            expected = np.mean([row[column] for row in part])
            assert found.loc[("BiVLC_ViT-B-32", subset, metric), "value"] == pytest.approx(expected)
    later = [dict(zip(LATER, [row[name] for name in (*BIVLC, "group_score")], strict=True)) for row in rows]
    again = values([write_csv(tmp_path / "later.csv", later)], PAIRS)
    for metric in names:
        assert (
            again.loc[("later", "all", metric), "value"]
            == found.loc[("BiVLC_ViT-B-32", "all", metric), "value"]
        )


def test_addresses_in_memory_are_no_images(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "m.csv", released())
    assert read_scores(path, PAIRS).rows["image_id"].nunique() == 12
    (note,) = compute_file_metrics([path], PAIRS, bootstrap=Bootstrap(100, 0)).attrs["notes"]
    assert "names no images" in note
    assert "row 1 (line 2): '<PIL.JpegImagePlugin" in note
    assert "in column 'image' is not an image name" in note
    named = write_csv(tmp_path / "n.csv", [row | {"filename": "a.jpg"} for row in released()])
    assert read_scores(named, PAIRS).rows["image_id"].unique().tolist() == ["a.jpg"]


def test_a_column_of_images_that_does_not_count_is_noted_beside_one_that_does(tmp_path: Path) -> None:
    rows = [{"image_id": name, "image": f"{n}.jpg", "correct": 1} for n, name in enumerate(["a", "", "b"])]
    found = read_scores(write_csv(tmp_path / "m.csv", rows), SUGARCREPE)
    assert found.rows["image_id"].tolist() == ["0.jpg", "1.jpg", "2.jpg"]
    (note,) = found.notes
    assert "'' in column 'image_id' is not an image name" in note


@pytest.mark.parametrize(
    "forms", [("0", "1"), ("True", "False"), ("yes", "no"), (1, 0), (True, False), (1.0, 0.0)]
)
def test_a_column_of_verdicts_that_is_called_image_is_an_error(
    tmp_path: Path, forms: tuple[Any, Any]
) -> None:
    rows = pd.DataFrame({"image": forms * 10, "group": [True, False] * 10})
    if isinstance(forms[0], str):
        path = write_csv(tmp_path / "m.csv", rows.to_dict("records"))
    else:
        rows.to_parquet(path := tmp_path / "m.parquet")
    with pytest.raises(
        DataError, match=r"column 'image' holds verdicts, such as .* Rename it to 'image_score'"
    ):
        compute_file_metrics([path], PAIRS, bootstrap=Bootstrap(100, 0))
    named = rows.rename(columns={"image": "image_score"})
    named.to_parquet(tmp_path / "n.parquet")
    assert values([tmp_path / "n.parquet"], PAIRS).loc[("n", "all", "t2i"), "value"] == 0.5


@pytest.mark.parametrize("path", [None, "same.jpg"])
def test_images_in_a_file_of_results_are_named_by_their_content(tmp_path: Path, path: str | None) -> None:
    images = [{"bytes": data, "path": path} for data in (b"a", b"b", b"a")]
    pq.write_table(pa.table({"image": images, "correct": [1, 0, 1]}), tmp_path / "m.parquet")
    found = read_scores(tmp_path / "m.parquet", SUGARCREPE)
    first, second, third = found.rows["image_id"]
    assert first == third != second
    assert found.notes == ()


def test_images_are_the_clusters(tmp_path: Path) -> None:
    rows = [{"filename": f"{i // 8}.jpg", "correct": int(i // 8 % 2)} for i in range(160)]
    alone = [{"correct": row["correct"]} for row in rows]
    found = values([write_csv(tmp_path / "m.csv", rows), write_csv(tmp_path / "alone.csv", alone)])
    width = {m: found.loc[(m, "all", "accuracy")] for m in ("m", "alone")}
    assert width["m"]["ci_high"] - width["m"]["ci_low"] > 2 * (
        width["alone"]["ci_high"] - width["alone"]["ci_low"]
    )
    assert (
        compute_file_metrics([tmp_path / "m.csv"], SUGARCREPE, bootstrap=Bootstrap(100, 0)).attrs["notes"]
        == []
    )


def test_the_released_files_of_sugarcrepe_are_one_model(tmp_path: Path) -> None:
    for subtype, correct in {"swap_att": [True, False], "add_obj": [True, True, True]}.items():
        rows = {
            str(i): {
                "answer": {"free_form_answer": "(1)"},
                "caption": "c",
                "filename": f"{i}.jpg",
                "correct": value,
            }
            for i, value in enumerate(correct)
        }
        (tmp_path / f"gpt4v-{subtype}.json").write_text(json.dumps(rows))
    found = values(sorted(tmp_path.glob("*.json")))["value"]
    assert found["gpt4v", "all", "accuracy"] == pytest.approx(4 / 5)
    assert found["gpt4v", "swap", "accuracy"] == 0.5
    assert found["gpt4v", "macro", "accuracy"] == pytest.approx((0.5 + 1) / 2)


def test_verdicts_are_read_in_any_usual_form(tmp_path: Path) -> None:
    forms = ["TRUE", "no", "1", "0.0", "Yes", "false", "", "NaN"]
    rows = [{"instance_id": f"i{i}", "ITT": form, "tot": "true"} for i, form in enumerate(forms)]
    found = values([write_csv(tmp_path / "m.csv", rows)], BENCHMARKS["sugarcrepe_pp"])
    row = found.loc[("m", "all", "itt")]
    assert (row["value"], row["n"], row["unscored"], row["ties"]) == (0.5, 6, 2, 0)
    assert set(found.index.get_level_values("metric")) == {"itt", "tot"}


def test_models_are_told_apart_by_their_column(tmp_path: Path) -> None:
    rows = [{"model": m, "id": i, "accuracy": m == "a"} for m in ("a", "b") for i in range(3)]
    found = values([write_csv(tmp_path / "both.csv", rows)])["value"]
    assert (found["a", "all", "accuracy"], found["b", "all", "accuracy"]) == (1, 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"score": 1}],
            r"no column of scores or verdicts; its columns are \['score'\].*\n.*s_c0_i0.*\n.*itt.*correct",
        ),
        (
            [{"correct": "true"}, {"correct": "maybe"}],
            r"row 2 \(line 3\): 'maybe' in column 'correct' is not a verdict",
        ),
        (
            [{"s_c0_i0": "1", "s_c1_i0": "much"}],
            "row 1 .*: 'much' in column 's_c1_i0' is not a finite number",
        ),
        ([{"correct": 1, "accuracy": 1}], r"several columns of the verdict 'accuracy'"),
        ([{"id": "a", "correct": 1}, {"id": "a", "correct": 0}], r"Duplicate instances \(1\) of model 'm'"),
        ([{"s_c0_i0": "inf", "s_c1_i0": "1"}], "row 1 .*: 'inf' in column 's_c0_i0' is not a finite number"),
        ([{"s_c0_i0": "1", "s_c1_i0": "1e999"}], "'1e999' in column 's_c1_i0' is not a finite number"),
        ([{"s_c0_i0": "1_0", "s_c1_i0": "1"}], "'1_0' in column 's_c0_i0' is not a finite number"),
        ([{"n_above": "-1", "n_tied": "0"}], "'-1' in column 'n_above' is not a number of candidates"),
        ([{"n_above": "1.5", "n_tied": "0"}], "'1.5' in column 'n_above' is not a number of candidates"),
        ([{"id": "", "correct": 1}], "row 1 .*: '' in column 'id' is not a name"),
        ([{"model": "", "correct": 1}], "row 1 .*: '' in column 'model' is not a name"),
        ([{"correct": 1, "subset": "all"}], r"row 1 \(line 2\): a subset in column 'subset' is called 'all'"),
        ([{"correct": 1, "subset": "macro"}], "a subset in column 'subset' is called 'macro'"),
    ],
)
def test_what_cannot_be_read_is_an_error(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        compute_file_metrics([write_csv(tmp_path / "m.csv", rows)], SUGARCREPE, bootstrap=Bootstrap(100, 0))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"id": ["a", None], "correct": [True, False]}, "row 1: .* in column 'id' is not a name"),
        ({"id": [1.5, 2.5], "correct": [True, False]}, "row 0: 1.5 in column 'id' is not a name"),
        (
            {"s_c0_i0": [True, False], "s_c1_i0": [1.0, 2.0]},
            "row 0: True in column 's_c0_i0' is not a finite",
        ),
        ({"s_c0_i0": [[1.0], [2.0]], "s_c1_i0": [1.0, 2.0]}, "in column 's_c0_i0' is not a finite number"),
        (
            {"s_c0_i0": [1.0, float("inf")], "s_c1_i0": [1.0, 2.0]},
            "row 1: inf in column 's_c0_i0' is not a finite",
        ),
        ({"correct": [2, 1]}, "row 0: 2 in column 'correct' is not a verdict"),
    ],
)
def test_values_of_wrong_types_are_errors(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    pq.write_table(pa.table(values), tmp_path / "m.parquet")
    with pytest.raises(DataError, match=message):
        compute_file_metrics([tmp_path / "m.parquet"], SUGARCREPE, bootstrap=Bootstrap(100, 0))


def test_numbers_name_images_and_what_pandas_takes_for_an_index_is_a_column(tmp_path: Path) -> None:
    rows = pd.DataFrame({"id": ["a", "b", "c"], "image_id": [7, 7, 9], "correct": [1, 0, 1]}).set_index("id")
    rows.assign(image=[b"\xff", b"\xfe", b"\xfd"]).to_parquet(tmp_path / "m.parquet")
    found = read_scores(tmp_path / "m.parquet", SUGARCREPE)
    assert found.rows["instance_id"].tolist() == ["a", "b", "c"]
    assert found.rows["image_id"].tolist() == ["7", "7", "9"]
    assert found.notes == ()


def test_a_run_is_not_its_own_second_seed(tmp_path: Path) -> None:
    rows = pd.concat([similarities("m", 0), similarities("o", 1)], ignore_index=True)
    path = write_table(SIMILARITIES, rows, tmp_path / "similarities.parquet")
    assert len(read_runs([f"{path}::m", f"{path}::o"])) == 2
    with pytest.raises(DataError, match="is given twice"):
        read_runs([f"{path}::m", f"{tmp_path}/../{tmp_path.name}::m"])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("m.txt", "x", "unknown format"),
        ("m.json", "3", "list or an object"),
        ("m.json", "[3]", "must be an object of fields"),
        ("m.json", "[]", "has no rows"),
        ("m.json", '[{"id": "a\\ud800", "correct": 1}]', "row 0 holds a text that is not valid Unicode"),
        ("m.jsonl", '{"\\udc00": 1, "correct": 1}', "line 1 holds a text that is not valid Unicode"),
        ("m.json", '[{"subset": ["\\ud800"], "correct": 1}]', "row 0 holds a text that is not valid Unicode"),
        ("m.parquet", "x", "not a Parquet file"),
        ("similarities.parquet", "x", "is not a Parquet file"),
    ],
)
def test_a_broken_file_is_an_error(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        compute_file_metrics([tmp_path / name], SUGARCREPE, bootstrap=Bootstrap(100, 0))


def test_a_file_of_another_benchmark_is_an_error(tmp_path: Path) -> None:
    write_table(SIMILARITIES, similarities("m", 0), tmp_path / "similarities.parquet")
    with pytest.raises(DataError, match="no instance of benchmark 'sugarcrepe'"):
        compute_file_metrics([tmp_path], SUGARCREPE, bootstrap=Bootstrap(100, 0))
    with pytest.raises(DataError, match="neither"):
        compute_file_metrics([tmp_path.parent], SUGARCREPE, bootstrap=Bootstrap(100, 0))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_that_is_not_exactly_our_table_gives_only_the_rows_of_the_benchmark(
    tmp_path: Path, suffix: str
) -> None:
    rows = pd.concat([similarities("m", 0, benchmark="winoground"), similarities("m", 1)], ignore_index=True)
    expected = summarise_similarities(
        rows[rows["benchmark"] == "bivlc"], {"bivlc": PAIRS}, bootstrap=Bootstrap(100, 0)
    )
    rows = rows.drop(columns=["n_above", "n_tied", "n_candidates"])
    rows = rows.assign(subsets=rows["subsets"].map(json.dumps))
    path = tmp_path / f"both.{suffix}"
    rows.to_csv(path, index=False) if suffix == "csv" else rows.to_parquet(path)
    found = compute_file_metrics([path], PAIRS, bootstrap=Bootstrap(100, 0))
    pd.testing.assert_frame_equal(found, expected)
    with pytest.raises(
        DataError, match=r"no instance of benchmark 'sugarcrepe'; .*\['winoground', 'bivlc'\]"
    ):
        compute_file_metrics([path], SUGARCREPE, bootstrap=Bootstrap(100, 0))


def test_a_table_of_ours_with_empty_counts_is_read_back_from_csv(tmp_path: Path) -> None:
    rows = similarities("m", 0)
    assert rows[["n_above", "n_tied", "n_candidates"]].isna().all(axis=None)
    rows.to_csv(tmp_path / "m.csv", index=False)
    expected = summarise_similarities(rows, {"bivlc": PAIRS}, bootstrap=Bootstrap(100, 0))
    found = compute_file_metrics([tmp_path / "m.csv"], PAIRS, bootstrap=Bootstrap(100, 0))
    pd.testing.assert_frame_equal(found, expected)


def test_an_error_in_a_row_of_the_benchmark_names_its_place_in_the_whole_file(tmp_path: Path) -> None:
    rows = [
        {"benchmark": name, "correct": value} for name, value in (("bivlc", "1"), ("sugarcrepe", "perhaps"))
    ]
    with pytest.raises(DataError, match=r"row 2 .*'perhaps' in column 'correct' is not a verdict"):
        values([write_csv(tmp_path / "m.csv", rows)])


def test_runs_are_read_by_folder_file_and_model(tmp_path: Path) -> None:
    rows = pd.concat([similarities("m", 0), similarities("o", 1)], ignore_index=True)
    path = write_table(SIMILARITIES, rows, tmp_path / "similarities.parquet")
    whole, one = read_runs([str(tmp_path), f"{path}::o"])
    assert len(whole) == 60
    assert one["model"].unique().tolist() == ["o"]
    with pytest.raises(DataError, match="no model 'x'"):
        read_runs([f"{path}::x"])
    with pytest.raises(DataError, match=r"holds no similarities\.parquet"):
        read_runs([str(tmp_path.parent)])


def test_a_run_of_an_earlier_version_is_told_what_to_do(tmp_path: Path) -> None:
    path = write_table(SIMILARITIES, similarities("m", 0), tmp_path / "similarities.parquet")
    pq.write_table(pq.read_table(path).drop(["score_type"]), path)
    with pytest.raises(DataError, match="of an earlier version has other columns: write it again"):
        read_runs([str(tmp_path)])


def subsets_of(folder: Path, cell: Any) -> list[str]:
    (folder / "m.json").write_text(json.dumps([{"correct": 1, "subset": cell}]))
    return list(read_scores(folder / "m.json", SUGARCREPE).rows["subsets"][0])


@pytest.mark.parametrize("cell", ["[" + "1" * 5000 + "]", "[" * 5000, "[a"])
def test_a_cell_that_only_looks_like_a_list_is_a_name(tmp_path: Path, cell: str) -> None:
    assert subsets_of(tmp_path, cell) == [cell]


def test_subsets_that_numpy_printed_are_read(tmp_path: Path) -> None:
    similarities("m", 0).to_parquet(tmp_path / "m.parquet")
    exported = pd.read_parquet(tmp_path / "m.parquet")
    exported.to_csv(tmp_path / "m.csv", index=False)
    assert "['swap' 'swap_obj']" in (tmp_path / "m.csv").read_text()
    assert {"swap", "swap_obj", "add", "add_att"} <= {
        *values([tmp_path / "m.csv"], PAIRS).index.unique("subset")
    }


def test_what_is_empty_in_a_list_of_subsets_is_no_subset(tmp_path: Path) -> None:
    assert subsets_of(tmp_path, [None, "a", "", float("nan")]) == ["a"]
    assert subsets_of(tmp_path, "[null, 'a', '', NaN]") == ["a"]
    pq.write_table(pa.table({"correct": [1], "subset": [[None, "a"]]}), tmp_path / "m.parquet")
    assert read_scores(tmp_path / "m.parquet", SUGARCREPE).rows["subsets"][0] == ["a"]


@pytest.mark.parametrize("sign", ["\\ud800", "\\u0000"])
def test_a_name_that_no_table_can_hold_is_an_error(tmp_path: Path, sign: str) -> None:
    path = tmp_path / "m.csv"
    path.write_text(f"correct,subset\n1,a\n1,['{sign}']\n")
    with pytest.raises(DataError, match=r"row 2 \(line 3\): field 'subset' contains"):
        read_scores(path, SUGARCREPE)


def test_nan_in_a_json_file_is_not_scored(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps([{"correct": 1.0}, {"correct": float("nan")}]))
    assert read_scores(tmp_path / "m.json", SUGARCREPE).outcomes.hits["accuracy"].isna().tolist() == [
        False,
        True,
    ]
