import json

import numpy as np
import pandas as pd

from caramel.refine.output import write_curve, write_refined, write_report
from caramel.refine.tradeoff import COLUMNS
from caramel.schemas.io import build_frame, read_table
from caramel.schemas.rejects import REJECTS
from caramel.sources.sugarcrepe_files import read_captions


def rows(subtypes, paraphrases) -> pd.DataFrame:
    n = len(subtypes)
    return pd.DataFrame(
        {
            **{"pair_id": [f"x{i}" for i in range(n)], "image_id": [f"{i}.jpg" for i in range(n)]},
            **{"type": "any", "subtype": subtypes, "caption": [f"Á cat {i}." for i in range(n)]},
            **{"caption2": paraphrases, "negative_caption": [f"A dog {i}." for i in range(n)]},
        }
    )


def test_refined_rows_are_read_again_as_sugarcrepe_and_sugarcrepe_pp(tmp_path):
    data = rows(["swap_obj", "swap_att", "swap_obj"], [None, "One cat.", None])
    write_refined(data, build_frame(REJECTS, []), tmp_path, ())
    again = read_captions(tmp_path).sort_values("image_id", ignore_index=True)
    for name in ("image_id", "subtype", "caption", "negative_caption"):
        assert again[name].tolist() == data[name].tolist()
    assert again["caption2"].tolist() == [None, "One cat.", None]
    first = json.loads((tmp_path / "swap_obj.json").read_text(encoding="utf-8"))
    assert first["1"] == {"filename": "2.jpg", "caption": "Á cat 2.", "negative_caption": "A dog 2."}
    assert pd.read_parquet(tmp_path / "refined.parquet")["pair_id"].tolist() == ["x0", "x1", "x2"]


def test_a_carriage_return_in_a_name_ends_no_row_of_the_curve(tmp_path):
    curve = pd.DataFrame([dict.fromkeys(COLUMNS)] * 2).assign(method=["none", "a\rb"], rows=1, accuracy=None)
    write_curve(curve, tmp_path)
    again = pd.read_csv(tmp_path / "curve.csv", keep_default_na=False)
    assert again["method"].tolist() == ["none", "a\rb"]


def test_rejects_keep_their_contract(tmp_path):
    rejects = pd.DataFrame({"id": ["x9"], "stage": ["refine"], "reason": ["because"], "text": ["A."]})
    write_refined(rows(["swap_obj"], [None]), rejects, tmp_path, ())
    pd.testing.assert_frame_equal(read_table(REJECTS, tmp_path / "rejects.parquet"), rejects)


def test_a_subtype_of_any_name_has_a_file_of_its_own_within_the_folder(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    write_refined(rows(["../a", "a/b", "a_b"], [None] * 3), build_frame(REJECTS, []), out, ())
    assert sorted(p.name for p in out.glob("*.json")) == ["%2E.%2Fa.json", "a%2Fb.json", "a_b.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_subtype_that_is_called_as_an_option_or_a_device_has_a_file_of_its_own(tmp_path):
    names = ["-rf", "CON", "com1.x", "nul ", ".hidden", "~root", "", "con_x"]
    write_refined(rows(names, [None] * len(names)), build_frame(REJECTS, []), tmp_path, ())
    written = {path.name for path in tmp_path.glob("*.json")} | {path.name for path in tmp_path.glob(".*")}
    assert written == {
        *("%2Drf.json", "%43ON.json", "%63om1.x.json", "%6Eul .json", "%2Ehidden.json", "%7Eroot.json"),
        *("%.json", "con_x.json"),
    }


def test_a_subtype_that_is_called_as_the_report_keeps_its_file(tmp_path):
    data = rows(["refine", "Refine", "%72efine", "refined"], [None] * 4)
    write_refined(data, build_frame(REJECTS, []), tmp_path, ())
    write_report({"rows_kept": 4}, tmp_path)
    assert json.loads((tmp_path / "refine.json").read_text()) == {"rows_kept": 4}
    written = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    names = {"%72efine.json", "%52efine.json", "%2572efine.json", "refined.json", "refine.json"}
    assert set(written) == names
    assert sum(len(value) for name, value in written.items() if name != "refine.json") == 4


def test_some_rows_of_a_subtype_without_a_paraphrase_make_it_plain_sugarcrepe(tmp_path):
    write_refined(rows(["swap_obj"] * 2, ["One cat.", None]), build_frame(REJECTS, []), tmp_path, ())
    found = json.loads((tmp_path / "swap_obj.json").read_text(encoding="utf-8"))
    assert list(found) == ["0", "1"]
    assert "caption2" not in found["0"]


def test_the_curve_is_written_as_numbers_and_as_a_picture(tmp_path):
    lines = [
        ("none", np.nan, 100, 1.0, 0.8, 0.7, 0.9),
        ("adversarial", 0.1, 40, 0.4, 0.5, 0.4, 0.6),
        ("aflite", 0.5, 0, 0.0, np.nan, np.nan, np.nan),
    ]
    curve = pd.DataFrame(lines, columns=list(COLUMNS))
    write_curve(curve, tmp_path)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "curve.csv"), curve)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_curve_without_a_single_figure_is_drawn_without_a_legend(tmp_path):
    write_curve(
        pd.DataFrame([("none", np.nan, 9, 1.0, np.nan, np.nan, np.nan)], columns=list(COLUMNS)), tmp_path
    )
    assert (tmp_path / "curve.png").exists()


def test_files_of_subtypes_that_lost_all_their_rows_are_removed(tmp_path):
    nothing = build_frame(REJECTS, [])
    write_refined(rows(["swap_obj", "add_obj"], [None, None]), nothing, tmp_path, ())
    write_refined(rows(["swap_obj"], [None]), nothing, tmp_path, ["swap_obj", "add_obj"])
    assert [path.name for path in tmp_path.glob("*.json")] == ["swap_obj.json"]
