import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caramel.audit.audit import audit_rows
from caramel.audit.ceilings import compute_audit_ceilings
from caramel.audit.dataset import audit_data_set
from caramel.audit.files.inputs import AuditRows, read_rows
from caramel.audit.output import audit_to_dict
from caramel.benchmarks.ceilings import feasibility
from caramel.benchmarks.tasks import Choice, build_choices
from caramel.interfaces.benchmark import ImageFile
from caramel.report.audit_text import format_audit
from caramel.report.blocks import TableBlock
from caramel.report.sections.ceiling_section import build_ceilings_blocks

DATA = os.environ.get("CARAMEL_DATA")


def build_rows(**columns: list[str | None]) -> pd.DataFrame:
    """Return 40 rows: half of them swap the words of their caption, half replace one."""
    rows = [(f"{i}", f"image {i}", "swap" if i % 2 else "replace") for i in range(40)]
    frame = pd.DataFrame(rows, columns=["pair_id", "image_id", "type"])
    swapped = frame["type"] == "swap"
    frame["subtype"] = np.where(swapped, "swap_obj", "replace_obj")
    frame["caption"] = [f"a dog {i} beside a cat" for i in range(40)]
    frame["negative_caption"] = [
        f"a cat {i} beside a dog" if swap else f"a bird {i} beside a cat" for i, swap in enumerate(swapped)
    ]
    frame["caption2"] = pd.Series([None] * 40, dtype=object)
    return frame.assign(**columns)


def test_ceilings_cover_all_rows_their_subtypes_and_the_mean() -> None:
    ceilings = compute_audit_ceilings(build_rows()).set_index(["model_class", "subset"])["ceiling"]
    words = ceilings["bag_of_words"]
    assert words.to_dict() == pytest.approx({"all": 0.5, "replace_obj": 1, "swap_obj": 0, "macro": 0.5})
    assert ceilings["no_image", "all"] == 1


def test_two_images_add_the_group_metrics_and_paraphrases_itt_and_tot() -> None:
    names: list[str | None] = [f"other {i}" for i in range(40)]
    two = compute_audit_ceilings(
        build_rows(image=[f"image {i}" for i in range(40)], negative_image=names)
    ).set_index(["model_class", "metric", "subset"])["ceiling"]
    assert two["bag_of_words", "group", "all"] == pytest.approx(0.5)
    assert two["no_image", "group", "all"] == 0
    second: list[str | None] = [
        f"a cat {i} beside a dog" if i == 1 else f"a dog, {i}, beside a cat" for i in range(40)
    ]
    said = compute_audit_ceilings(build_rows(caption2=second)).set_index(["model_class", "metric", "subset"])
    assert said.loc[("bag_of_words", "itt", "replace_obj"), "ceiling"] == 1
    assert said.loc[("no_image", "itt", "swap_obj"), "impossible"] == 1


def test_an_audit_writes_and_prints_its_ceilings() -> None:
    result = audit_rows(build_rows(), scorers=("length",), folds=2, seed=1, name="small")
    written = json.loads(json.dumps(audit_to_dict(result), allow_nan=False))["ceilings"]
    assert {"model_class": "bag_of_words", "subset": "swap_obj", "metric": "accuracy", "ceiling": 0.0} | {
        "exact": True,
        "n": 20,
        "impossible": 20,
    } in written
    text = format_audit(result, beside={"all": 0.75}, beside_name="CLIP, sees images")
    line = next(line for line in text.splitlines() if "skill of CLIP" in line)
    assert line.split()[3] == "50.0"


def test_an_audit_marks_ceilings_that_are_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasibility, "LIMIT", 0.0)
    order = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "d"), ("d", "b")] * 8
    captions: dict[str, list[str | None]] = {
        "caption": [f"dog {a}" for a, _ in order],
        "negative_caption": [f"dog {b}" for _, b in order],
    }
    result = audit_rows(build_rows(**captions), scorers=("length",), folds=2, seed=1, name="small")
    records = audit_to_dict(result)["ceilings"]
    assert {record["exact"] for record in records if record["model_class"] == "no_image"} == {False}
    text = format_audit(result)
    assert "≤ 100.0" in next(line for line in text.splitlines() if "no_image" in line)
    assert "≤: an upper bound" in text
    block = build_ceilings_blocks(records)[0]
    assert isinstance(block, TableBlock)
    assert "≤ 100.0" in {cell.text for row in block.rows for cell in row}
    assert "≤: an upper bound" in block.note


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not available")
@pytest.mark.parametrize(
    ("name", "swap_att", "swap_obj"), [("sugarcrepe", 408, 164), ("sugarcrepe_pp", 384, 161)]
)
def test_the_public_pairs_of_equal_words_are_counted(name: str, swap_att: int, swap_obj: int) -> None:
    ceilings = compute_audit_ceilings(read_rows(Path(str(DATA)) / name).rows)
    counts = ceilings[(ceilings["model_class"] == "bag_of_words") & (ceilings["metric"] == "accuracy")]
    assert counts.set_index("subset")["impossible"].to_dict() == {
        **{s: 0 for s in counts["subset"] if s not in ("all", "macro")},
        **{"swap_att": swap_att, "swap_obj": swap_obj},
        **dict.fromkeys(("all", "macro"), swap_att + swap_obj),
    }


def test_the_audit_of_a_benchmark_that_ranks_candidates_has_ceilings_of_recall() -> None:
    options = ["a dog and a cat", "a cat and a dog", "a bird", "a cow"]
    choices = [
        Choice(f"q{n}", f"{n}.jpg", ["swap", f"swap_{n % 2}"], "i2t", f"{n}.jpg", options[n % 2 :], n % 2 * 2)
        for n in range(4)
    ]
    queries = build_choices(choices, [(f"{n}.jpg", ImageFile(f"{n}.jpg")) for n in range(4)])
    rows = build_rows().assign(image=None, negative_image=None)
    data_set = AuditRows(rows, "crepe_productivity", {}, queries=queries)
    settings = {"folds": 2, "seed": 0, "name": "crepe", "corpus": None, "sources": [], "training": None}
    result = audit_data_set(data_set, scorers=["length"], **settings)
    lines = result.ceilings.set_index(["model_class", "metric", "subset"])
    ceilings = lines["ceiling"].to_dict()
    assert ceilings["bag_of_words", "recall@1", "swap_0"] == pytest.approx(1 / 2), (
        "two candidates are one bag"
    )
    assert ceilings["bag_of_words", "recall@1", "swap_1"] == 1
    assert ceilings["bag_of_words", "recall@1", "macro"] == pytest.approx(3 / 4)
    assert ("bag_of_words", "accuracy", "all") in ceilings, "pairs have their own"
    assert "ties are broken at random" in format_audit(result, beside=None, beside_name="")
