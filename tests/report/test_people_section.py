import json
from pathlib import Path

from annotated import annotated, build_swap_instances, hash_swap_instances, index_swap_images
from synthetic import put

from caramel.report.blocks import NoteBlock, Section
from caramel.report.rendering import render_page
from caramel.report.sections.people_section import build_people_blocks, has_people
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import write_table

CHOOSE = {
    "task": "choose",
    "guideline": "<script>x</script>",
    "items": 40,
    "outdated": 3,
    "undecided": 2,
    "annotators": 3,
    "answers": 80,
    "pairable": 40,
    "krippendorff_alpha": 0.61,
    "ci_low": 0.42,
    "ci_high": 0.74,
}


def test_without_people_there_is_no_section(tmp_path: Path) -> None:
    for content in ({"candidates": {}}, {"skipped": "no images"}):
        put(tmp_path / "filter_images/metrics.json", content)
        assert not has_people(tmp_path, tmp_path)
        assert not has_people(tmp_path, None)


def test_a_baseline_of_another_benchmark_is_a_note(tmp_path: Path) -> None:
    put(tmp_path / "filter_images/metrics.json", {})
    write_table(INSTANCES, build_swap_instances(4), tmp_path / "assemble/instances.parquet")
    write_table(IMAGES, index_swap_images(4), tmp_path / "assemble/images.parquet")
    right = json.dumps({"i0": "c0", "i1": "c1", "c0": "i0", "c1": "i1"})
    answers = annotated(
        {"ada": {"i0": right, "of another profile": right}}, "baseline", hash_swap_instances(4)
    )
    write_table(ANNOTATIONS, answers, tmp_path / "baseline.parquet")
    assert has_people(tmp_path, tmp_path)
    (note,) = build_people_blocks(tmp_path, tmp_path)
    assert isinstance(note, NoteBlock)
    assert "1 of its 2 items are not among the 4 instances of this run" in note.text
    assert "annotation.data_dir" in note.text


def test_agreement_and_baseline_are_tables_and_what_people_wrote_is_escaped(tmp_path: Path) -> None:
    unknown = {"krippendorff_alpha": None, "ci_low": None, "ci_high": None}
    put(tmp_path / "filter_images/metrics.json", {"people": {"choose": CHOOSE, "fits": CHOOSE | unknown}})
    write_table(INSTANCES, build_swap_instances(4), tmp_path / "assemble/instances.parquet")
    write_table(IMAGES, index_swap_images(4), tmp_path / "assemble/images.parquet")
    right, wrong = ({"i0": "c0", "i1": one, "c0": "i0", "c1": "i1"} for one in ("c1", "c0"))
    answers = {"ada": {"i0": right, "i1": right}, "bob": {"i2": right, "i3": wrong}}
    replies = {name: {i: json.dumps(a) for i, a in of_one.items()} for name, of_one in answers.items()}
    write_table(
        ANNOTATIONS, annotated(replies, "baseline", hash_swap_instances(4)), tmp_path / "baseline.parquet"
    )
    agreement, baseline = build_people_blocks(tmp_path, tmp_path)
    texts = [[cell.text for cell in row] for row in agreement.rows]
    assert texts[0][-1] == "0.61"
    assert texts[0][agreement.head.index("outdated")] == "3"
    assert agreement.rows[0][-1].note == "[0.42, 0.74]"
    assert texts[1][-1] == "–"
    all_rows = {row[0].text: [cell.text for cell in row] for row in baseline.rows}
    assert all_rows["all"][baseline.head.index("group")] == "75.0"
    assert all_rows["all"][-2:] == ["4", "0"]
    page = render_page(
        title="t", heading="h", lead="l", sections=[Section("people", "People", "", [agreement])], cards=[]
    )
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page
