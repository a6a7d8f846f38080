from pathlib import Path

import pytest
from synthetic import write_all

from caramel.report.blocks import TableBlock
from caramel.report.inputs import StageSkipped
from caramel.report.sections.standing_sections import build_ceilings_section, build_ranks_section


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("standing") / "data"
    write_all(folder)
    return folder


def read_rows(block: object) -> dict[str, list[str]]:
    assert isinstance(block, TableBlock)
    return {row[0].text: [cell.text for cell in row[1:]] for row in block.rows}


def test_the_ceilings_of_each_class_and_the_skill_of_each_variant_are_shown(data: Path) -> None:
    rows = read_rows(build_ceilings_section(data)[0])
    ceilings = {"bag_of_words", "nouns_only", "attributes_only", "no_image"}
    assert {f"ceiling {name}" for name in ceilings} < set(rows)
    assert "base" in rows
    shares = [float(text) for name in ceilings for text in rows[f"ceiling {name}"] if text != "–"]
    assert shares
    assert all(0 <= share <= 100 for share in shares)


def test_every_model_has_a_set_of_ranks(data: Path) -> None:
    rows = read_rows(build_ranks_section(data)[0])
    assert "base" in rows
    for cells in rows.values():
        for text in cells:
            ends = [int(end) for end in text.split("–") if end]
            assert all(1 <= end <= len(rows) for end in ends)


def test_without_an_evaluation_both_sections_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "evaluate").mkdir()
    (tmp_path / "evaluate/variants.csv").write_text("skipped\nno model\n")
    for build in (build_ceilings_section, build_ranks_section):
        with pytest.raises(StageSkipped, match="no model"):
            build(tmp_path)
