import pandas as pd

from caramel.report.whole_sets import find_partial_subsets, format_partial_subsets


def lines(*rows: tuple[str, str, int]) -> list[str]:
    return format_partial_subsets(
        find_partial_subsets(pd.DataFrame(rows, columns=["benchmark", "subset", "n"]))
    )


def test_whole_sets_and_sets_without_published_figures_need_no_line() -> None:
    assert lines(("sugarcrepe", "all", 7511), ("winoground", "all", 5), ("sugarcrepe", "only_obj", 3)) == []


def test_a_part_is_named_with_its_size_by_all_or_by_its_subsets() -> None:
    (line,) = lines(("sugarcrepe", "all", 5), ("sugarcrepe", "replace", 5))
    assert line.startswith("Not the released sugarcrepe: all has 5 of 7,511 instances.")
    (line,) = lines(*(("crepe_productivity", f"atom/n{n}", 1) for n in range(4, 9)))
    assert "atom/n4 has 1 of 1,258 instances" in line
    assert line.count(" has ") == 3
    assert "; and 2 more." in line


def test_more_than_was_released_is_not_the_release_either() -> None:
    (line,) = lines(("sugarcrepe", "all", 7512))
    assert "all has 7,512 instances, 1 more than were released" in line
