import numpy as np
import pandas as pd
import pytest

from caramel.benchmarks.tasks import Choice, build_choices, build_comparisons
from caramel.errors import DataError
from caramel.evaluation.results.task_ceilings import compute_task_ceilings, compute_task_chance
from caramel.interfaces.benchmark import ImageFile, Rankings
from caramel.registry import BENCHMARKS
from caramel.report.paper_table import build_paper_table
from caramel.report.table_lines import Additions, build_published_rank_lines, format_class_notes
from caramel.report.table_styles import Grid, render_table
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap

BENCHMARK = BENCHMARKS["sugarcrepe"]
N = 120


def build_task():
    """Return a task in which every other negative has the words of its caption in another order."""
    rows = [
        {
            "instance_id": f"i{i}",
            "image_id": f"image {i}",
            "subsets": ["swap", "swap_obj"],
            "image": i,
            "caption": f"a dog {i} and a cat",
            "negative_caption": f"a cat {i} and a dog" if i % 2 else f"a cow {i} and a cat",
        }
        for i in range(N)
    ]
    return build_comparisons(rows, [ImageFile(f"{i}.jpg") for i in range(N)])


def score(model: str, right: int) -> pd.DataFrame:
    """Return scores of a model that has the first ``right`` instances right."""
    task = build_task()
    rows = task.rows[["instance_id", "image_id", "subsets"]]
    return build_frame(
        SIMILARITIES,
        rows.assign(
            model=model,
            benchmark="sugarcrepe",
            s_c0_i0=(np.arange(N) < right).astype(float),
            s_c1_i0=0.5,
        ),
    )


def build_grid(*runs: pd.DataFrame, **options: object) -> Grid:
    return build_paper_table(
        pd.concat(runs, ignore_index=True),
        BENCHMARK,
        subsets=("all",),
        published=False,
        bootstrap=Bootstrap(100, 0),
        **options,  # type: ignore[arg-type]
    )


def table(*runs: pd.DataFrame, **options: object) -> dict[str, list[str]]:
    grid = build_grid(*runs, **options)
    rows = [line.split(",") for line in render_table(grid, "csv").splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_a_table_shows_ceilings_and_the_skill_of_each_score_above_one() -> None:
    ceilings = compute_task_ceilings(build_task(), BENCHMARK, None)
    rows = table(score("m", 90), additions=Additions(ceilings, ("bag_of_words", "no_image")))
    assert rows["Ceiling bag_of_words"] == ["50.0"]
    assert rows["m"] == ["75.0"]
    assert rows["m above bag_of_words"] == ["50.0"]
    assert rows["m above no_image"] == ["–"]
    assert "m above nouns_only" not in rows


def test_a_table_marks_ceilings_that_are_bounds() -> None:
    ceilings = compute_task_ceilings(build_task(), BENCHMARK, None)
    assert table(score("m", 90), additions=Additions(ceilings.assign(exact=False)))[
        "Ceiling bag_of_words"
    ] == ["≤ 50.0"]
    assert format_class_notes(ceilings.assign(exact=False))[-1].startswith("≤: an upper bound")
    assert len(format_class_notes(ceilings)) == 2


def test_a_table_shows_ranks_and_ties() -> None:
    rows = table(score("a", 60), score("b", 62), score("c", 110), additions=Additions(ranks=True))
    assert rows["Rank of a"] == rows["Rank of b"] == ["2–3 b"]
    assert rows["Rank of c"] == ["1 a"]


def test_a_model_without_a_score_is_named_and_leaves_the_others_their_ranks() -> None:
    runs = [score("a", 60), score("b", 110), score("c", 110).assign(s_c0_i0=np.nan)]
    grid = build_grid(*runs, additions=Additions(ranks=True))
    ranks = {line.name: line.cells[0].text for line in grid.parts[-1]}
    assert ranks == {"Rank of a": "2 b", "Rank of b": "1 a"}
    assert "Not ranked: c has no score in all accuracy; the others are ranked without it." in grid.notes


def test_seeds_of_a_variant_have_one_rank() -> None:
    runs = [score(f"{name}-{seed}", right) for name, right in (("a", 60), ("b", 100)) for seed in (1, 2)]
    rows = table(*runs, additions=Additions(ranks=True), seeds=True)
    assert rows["Rank of a"] == ["2 b"]


def test_ceilings_are_those_of_the_scored_instances() -> None:
    ceilings = compute_task_ceilings(build_task(), BENCHMARK, [f"i{i}" for i in range(1, N, 2)])
    values = ceilings.set_index(["model_class", "subset", "metric"])["ceiling"]
    assert values["bag_of_words", "all", "accuracy"] == 0


def test_scored_instances_that_the_files_lack_are_an_error() -> None:
    with pytest.raises(DataError, match="same release"):
        compute_task_ceilings(build_task(), BENCHMARK, ["elsewhere"])


def test_chance_and_ceilings_of_a_ranking_are_those_of_the_scored_queries() -> None:
    options = [["a b", "b a", "c"], ["d", "e f", "g"]]
    choices = [
        Choice(f"q{n}", f"{n}.jpg", ["atom"], "i2t", f"{n}.jpg", texts, 0) for n, texts in enumerate(options)
    ]
    task = build_choices(choices, [(f"{n}.jpg", ImageFile(f"{n}.jpg")) for n in range(2)])
    assert isinstance(task, Rankings)
    benchmark = BENCHMARKS["crepe_productivity"]
    for scored, ceiling in ((None, 3 / 4), (["q0"], 1 / 2)):
        lines = compute_task_ceilings(task, benchmark, scored).set_index(["model_class", "subset", "metric"])
        assert lines["ceiling"].to_dict()["bag_of_words", "all", "recall@1"] == pytest.approx(ceiling)
        assert lines["exact"].all()
        chance = compute_task_chance(task, benchmark, scored).set_index(["subset", "metric"])["chance"]
        assert chance["all", "recall@1"] == pytest.approx(1 / 3)
        assert chance["atom", "recall@3"] == 1
    assert format_class_notes(compute_task_ceilings(task, benchmark, None))[-1].startswith(
        "recall@k: the expected"
    )


def test_published_shares_are_ranked_where_the_number_of_instances_is_known() -> None:
    values = {"x": {("all", "accuracy"): 0.5, ("other", "accuracy"): 0.5}, "y": {("all", "accuracy"): 0.9}}
    lines = build_published_rank_lines(
        values, {("all", "accuracy"): 500}, [("all", "accuracy"), ("other", "accuracy")], 0.0005
    )
    assert [[cell.text for cell in line.cells] for line in lines] == [["2 b", "–"], ["1 a", "–"]]
