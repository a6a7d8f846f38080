import json
import os
from pathlib import Path

import pytest

from caramel.errors import BackendError, DataError
from caramel.quality.audit import audit, best_single_scorer, table, write_audit

DATA = os.environ.get("CARAMEL_DATA")


def benchmark(folder: Path, **more: dict[str, dict[str, str]]) -> Path:
    """Write a benchmark of two subtypes on which only the length of the texts gives anything away."""
    for subtype in ("add_obj", "swap_obj"):
        rows = {}
        for i in range(30):
            negative = f"Dog {i} sees cat." if subtype == "swap_obj" else f"Cat {i} sees dog and bus."
            rows[str(i)] = {
                "filename": f"{i}.jpg",
                "caption": f"Cat {i} sees dog.",
                "negative_caption": negative,
            }
        (folder / f"{subtype}.json").write_text(json.dumps(rows | more.get(subtype, {})))
    return folder


def test_an_audit_shows_what_each_scorer_can_do_by_subtype(tmp_path):
    result = audit(benchmark(tmp_path), scorers=("length", "casing"), folds=5, seed=3)
    assert result.rows == 60
    assert result.accuracies["length"]["add_obj"]["accuracy"] == 1
    assert result.accuracies["length"]["swap_obj"]["accuracy"] == 0.5
    assert best_single_scorer(result)["all"]["scorer"] == "length"


def test_defects_name_their_rows(tmp_path):
    row = {"filename": "x.jpg", "caption": "A cat.", "negative_caption": "A dog."}
    swap = {
        "a": {**row, "negative_caption": "a CAT"},
        "b": row,
        "c": {**row, "filename": "y.jpg"},
        "d": {**row, "caption2": "A cat!"},
    }
    defects = audit(benchmark(tmp_path, swap_obj=swap), scorers=("length",), folds=5, seed=3).defects
    assert defects["negative_equals_caption"] == ["swap_obj-a"]
    assert defects["paraphrase_equals_caption"] == ["swap_obj-d"]
    assert defects["duplicate_pair"] == ["swap_obj-c", "swap_obj-d"]
    assert defects["word_order_only"] == [f"swap_obj-{i}" for i in range(30)]


def test_the_written_audit_holds_scorers_best_scorer_and_defects(tmp_path):
    result = audit(benchmark(tmp_path), scorers=("length", "casing"), folds=5, seed=3)
    path = write_audit(result, tmp_path / "out" / "deep")
    assert path.name == "audit.json"
    data = json.loads(path.read_text())
    overall = data["scorers"]["length"]["overall"]
    assert overall["ci_low"] <= overall["micro"] == 0.75 <= overall["ci_high"]
    assert overall["macro"] == 0.75
    assert data["scorers"]["length"]["by_subtype"]["add_obj"]["n"] == 30
    assert data["best_single_scorer"]["scorer"] == "length"
    assert data["best_single_scorer_by_subtype"]["add_obj"]["accuracy"] == 1
    assert data["defects"]["word_order_only"]["count"] == 30
    assert len(data["defects"]["word_order_only"]["rows"]) == 30


def test_the_table_has_a_line_per_scorer_and_defect(tmp_path):
    text = table(audit(benchmark(tmp_path), scorers=("length", "casing"), folds=5, seed=3))
    lines = [line.split()[0] for line in text.splitlines() if line.strip()]
    for name in ("length", "casing", "negative_equals_caption", "word_order_only"):
        assert lines.count(name) == 1
    assert "Best single scorer: length, 75.0" in text


def test_a_wrong_scorer_or_folder_is_an_error(tmp_path):
    with pytest.raises(BackendError, match="vera"):
        audit(benchmark(tmp_path), scorers=("vera",), folds=5, seed=3)
    with pytest.raises(DataError, match="does not exist"):
        audit(tmp_path / "nowhere", scorers=("length",), folds=5, seed=3)


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")
@pytest.mark.parametrize(
    ("name", "negative_equals", "paraphrase_equals", "duplicates"),
    [("sugarcrepe", 0, 0, 9), ("sugarcrepe_pp", 2, 3, 8)],
)
def test_the_defects_of_the_public_files_are_found(name, negative_equals, paraphrase_equals, duplicates):
    defects = audit(Path(str(DATA)) / name, scorers=("length",), folds=5, seed=3).defects
    assert len(defects["negative_equals_caption"]) == negative_equals
    assert len(defects["paraphrase_equals_caption"]) == paraphrase_equals
    assert len(defects["duplicate_pair"]) == duplicates
