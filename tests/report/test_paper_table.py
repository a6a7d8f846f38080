import csv
import io
import re

import numpy as np
import pandas as pd
import pytest

from caramel.benchmarks.metrics import compute_outcomes
from caramel.errors import DataError
from caramel.registry import BENCHMARKS
from caramel.report.paper_table import build_paper_table
from caramel.report.table_styles import Style, render_table
from caramel.report.whole_sets import read_published_sizes
from caramel.schemas.evaluation import METRICS, SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap

PP = BENCHMARKS["sugarcrepe_pp"]
SCORES = ["s_c0_i0", "s_c1_i0", "s_c2_i0", "t_p1_p2", "t_p1_n", "t_p2_n"]


def scored(
    model: str, seed: int, lift: float = 0.0, n: int = 300, score_type: str | None = "cosine"
) -> pd.DataFrame:
    """Return random scores of n instances; ``lift`` is added to those of the true captions with the image."""
    rows = pd.DataFrame(np.random.default_rng(seed).normal(size=(n, len(SCORES))), columns=SCORES)
    rows[["s_c0_i0", "s_c2_i0"]] += lift
    return build_frame(
        SIMILARITIES,
        rows.assign(
            instance_id=[f"i{i}" for i in range(n)],
            image_id=[f"image{i // 3}" for i in range(n)],
            subsets=[["swap", "swap_obj"] if i % 2 else ["replace", "replace_obj"] for i in range(n)],
            model=model,
            benchmark="sugarcrepe_pp",
            score_type=score_type,
        ),
    )


def whole(model: str, seed: int, score_type: str | None = "cosine") -> pd.DataFrame:
    """Return random scores of as many instances of two subtypes as are released."""
    sizes = read_published_sizes()
    parts = []
    for subtype in ("swap_obj", "replace_obj"):
        n = sizes["sugarcrepe_pp", subtype]
        rows = scored(model, seed, n=n, score_type=score_type)
        rows["instance_id"] = f"{subtype}/" + rows["instance_id"]
        rows["subsets"] = [[subtype.partition("_")[0], subtype]] * n
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def table(
    runs: list[pd.DataFrame],
    style: Style = "markdown",
    metrics: tuple[str, ...] = ("itt", "tot"),
    subsets: tuple[str, ...] = ("all",),
    published: bool = False,
    **options: object,
) -> str:
    grid = build_paper_table(
        pd.concat(runs, ignore_index=True),
        PP,
        metrics=metrics,
        subsets=subsets,
        published=published,
        bootstrap=Bootstrap(100, 0),
        **options,  # type: ignore[arg-type]
    )
    return render_table(grid, style)


def cells(text: str) -> dict[str, list[str]]:
    """Return the cells of a Markdown table by the row's first one."""
    rows = [line for line in text.split("\n") if line.startswith("|")]
    split = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    assert len({len(row) for row in split}) == 1
    return {row[0]: row[1:] for row in split}


def test_values_are_the_shares_of_hits_in_per_cent() -> None:
    rows = scored("m", 0)
    found = cells(table([rows], subsets=("swap_obj", "replace_obj")))
    hits = compute_outcomes(rows, ("itt", "tot")).hits
    places = {"swap_obj": slice(1, None, 2), "replace_obj": slice(0, None, 2)}
    expected = [f"{100 * hits[m].to_numpy()[places[s]].mean():.1f}" for s in places for m in ("itt", "tot")]
    assert found["m"] == expected
    assert found["Model"] == [rf"{s}\_obj {m}" for s in ("swap", "replace") for m in ("itt", "tot")]
    assert found["Chance"] == ["33.3"] * 4


def test_all_metrics_and_subsets_are_shown_unless_some_are_named() -> None:
    found = cells(table([scored("m", 0)], metrics=(), subsets=()))
    assert len(found["Model"]) == len(PP.metrics) * 6  # all, macro, two types, two subtypes


def test_only_a_significant_lead_over_every_other_is_bold() -> None:
    best, second, last = scored("best", 1, lift=2.0), scored("second", 2, lift=0.5), scored("last", 3)
    found = cells(table([best, second, last]))
    assert [cell.startswith("**") for cell in found["best"]] == [True, False]
    assert not any("**" in cell for name in ("second", "last", "Chance") for cell in found[name])
    near = scored("near", 1, lift=2.02)
    assert "**" not in table([best, near, last]).split("\n\n")[0]


def test_group_match_costs_the_other_columns_no_bold() -> None:
    names = ["s_c0_i0", "s_c1_i0", "s_c0_i1", "s_c1_i1"]
    runs = []
    for seed, lift in enumerate((0.42, 0.2)):
        run = scored(f"m{seed}", seed).assign(benchmark="winoground")
        run[names] = np.random.default_rng(seed).normal([lift, 0, 0, lift], 1, (len(run), 4))
        runs.append(run)
    shown = {
        metrics: cells(
            render_table(
                build_paper_table(
                    pd.concat(runs, ignore_index=True),
                    BENCHMARKS["winoground"],
                    metrics=metrics,
                    subsets=("all", "swap", "replace"),
                    published=False,
                    bootstrap=Bootstrap(100, 0),
                ),
                "markdown",
            )
        )
        for metrics in (("i2t", "group"), ("i2t", "group", "group_match"))
    }
    few, all_of_them = shown.values()
    for name in ("m0", "m1"):
        assert [cell for n, cell in enumerate(all_of_them[name]) if n % 3 < 2] == few[name]
    assert all_of_them["Chance"][2] == "50.0"
    assert any("**" in cell for cell in few["m0"])
    assert not all("**" in cell for cell in few["m0"])


def test_a_single_model_beats_nobody() -> None:
    assert "**" not in table([scored("m", 0, lift=3)])


def test_seeds_are_one_row_where_that_is_asked_for() -> None:
    runs = [scored("tuned-1", 1, lift=1), scored("tuned-2", 2, lift=2)]
    values = [100 * compute_outcomes(run, ("itt",)).hits["itt"].mean() for run in runs]
    apart = cells(table([*runs, scored("ViT-B-16", 3), scored("ViT-B-32", 4)]))
    assert {"tuned-1", "tuned-2", "ViT-B-16", "ViT-B-32"} <= set(apart)
    text = table(runs, seeds=True)
    found = cells(text)
    assert found["tuned (2 seeds)"][0].strip("*") == f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"
    assert "tuned: mean ± standard deviation of tuned-1, tuned-2." in text


def test_a_lucky_seed_is_not_bold() -> None:
    lucky = [scored("tuned-1", 1, lift=6), scored("tuned-2", 2, lift=-1), scored("tuned-3", 3, lift=1)]
    base = scored("base", 4)
    assert "**" in table([lucky[0], base]).split("\n\n")[0]
    assert "**" not in table([*lucky, base], seeds=True).split("\n\n")[0]


def test_published_rows_stand_beside_with_their_source() -> None:
    found = cells(
        table([whole("m", 0)], metrics=("itt",), subsets=("swap_obj", "replace_obj"), published=True)
    )
    source = found["CLIP ViT-B/32"][2]
    assert found["CLIP ViT-B/32"][:2] == ["45.18", "86.80"]
    assert source.startswith("SugarCrepe++: Table 2, row CLIP; Table 4, row CLIP; ")
    assert source.endswith("; Table 12, row CLIP; Table 15, row CLIP-ViT-B/32 (by cosine)")
    assert found["CLIP-SVLC"][:2] == ["42.98", "80.93"]
    assert re.fullmatch(r"\d+\.\d\d", found["m"][0])
    assert found["m"][2] == ""
    assert found["Chance"][0] == "33.33"
    assert found["Instances"] == ["245", "1,652", ""]


def test_published_rows_stand_only_in_columns_of_whole_sets() -> None:
    subsets = ("swap_obj", "replace_obj", "swap", "macro")
    run = whole("m", 0)
    text = table([run], metrics=("itt",), subsets=subsets, published=True)
    found = cells(text)
    assert found["Instances"][:4] == ["245", "1,652", "245 of 911", "1,897 of 4,757"]
    for name, row in found.items():
        if row[-1].startswith("SugarCrepe"):
            assert row[2:4] == ["–", "–"], name
    assert (
        "Omitted: published figures of sets that were not measured completely: swap, macro."
        in text.replace("\\", "")
    )
    part = run[~run["instance_id"].isin(["swap_obj/i7"])].reset_index(drop=True)
    found = cells(table([part], metrics=("itt",), subsets=("swap_obj",), published=True))
    assert found["Instances"] == ["244 of 245"]
    assert set(found) == {"Model", ":--", "Instances", "Chance", "m"}
    row = build_frame(METRICS, [{"model": "chat", "benchmark": "sugarcrepe_pp", "subset": "swap_obj",
        "metric": "itt", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 9, "ties": 0, "unscored": 0}])  # fmt: skip
    found = cells(table([run], metrics=("itt",), subsets=("swap_obj",), published=True, further=row))
    assert found["Instances"] == ["9–245 of 245"]
    assert set(found) == {"Model", ":--", "Instances", "Chance", "m", "chat"}


def test_published_rows_stand_only_beside_a_model_of_the_same_score() -> None:
    def beside(*rules: str | None) -> tuple[set[str], str]:
        runs = [whole(f"m{n}", n, score_type=rule) for n, rule in enumerate(rules)]
        text = table(runs, metrics=("itt",), subsets=("swap_obj",), published=True)
        return set(cells(text)) - {"Model", ":--", "Instances", "Chance", "m0", "m1"}, text.replace("\\", "")

    by_itc, text = beside("cosine")
    assert {"BLIP", "BLIP2", "ALBEF", "CLIP ViT-B/32", "Human"} <= by_itc
    by_itm, of_heads = beside("itm")
    assert by_itm == {"ViLT, fine-tuned for retrieval on COCO", "Human"}
    assert "ViLT, fine-tuned for retrieval on COCO" not in by_itc
    assert not {"ViLT", "BLIP-SGVL"} & (by_itc | by_itm)
    assert beside("joint_states")[0] == {"ViLT", "Human"}
    assert beside("itc_max")[0] == beside(None)[0] == {"Human"}
    assert beside("cosine", "itm")[0] == by_itc | by_itm
    assert all(name.endswith(", VQAScore") for name in beside("vqascore")[0] - {"Human"})
    assert (
        "score types that no measured model has: itm, itm_decision, joint_states, vgptscore, vgptscore_noise, v"
        in text
    )
    assert "score types that no measured model has: cosine, itm_decision, " in of_heads


def test_who_answers_in_words_stands_beside_those_asked_in_the_same_wording() -> None:
    row = {
        "model": "chat",
        "benchmark": "sugarcrepe_pp",
        "subset": "all",
        "metric": "choice_4way",
        "value": 0.5,
    }
    row |= {"ci_low": 0.4, "ci_high": 0.6, "n": 10, "ties": 0, "unscored": 0}
    sizes = read_published_sizes()
    answers = [
        {**row, "subset": subset, "n": sizes["sugarcrepe_pp", subset]}
        for subset in ("all", "swap_obj", "swap_att", "replace_rel")
    ]

    def beside(wording: str) -> set[str]:
        text = table(
            [build_frame(SIMILARITIES, [])],
            metrics=(),
            published=True,
            subsets=("swap_obj", "swap_att", "replace_rel"),
            further=build_frame(METRICS, [*answers, {**row, "subset": f"wording:{wording}"}]),
        )
        return {name for name in cells(text) if name.startswith("GPT-4o")}

    assert beside("gpt4o_1") == {"GPT-4o, prompt 1"}
    assert beside("gpt4o_2") == {"GPT-4o, prompt 2"}
    assert beside("plain") == set()


def test_models_without_scores_are_shown_and_nothing_beside_them_is_bold() -> None:
    runs = [scored("best", 1, lift=3), scored("last", 2)]
    row = {"model": "chat", "benchmark": "sugarcrepe_pp", "subset": "all", "metric": "itt", "value": 0.5}
    row |= {"ci_low": 0.4, "ci_high": 0.6, "n": 10, "ties": 0, "unscored": 0}
    further = build_frame(METRICS, [row])
    text = table(runs, further=further)
    assert cells(text)["chat"] == ["50.0", "–"]
    assert "**" not in text
    assert "**" in table(runs)


def test_a_column_in_which_no_model_has_a_value_is_empty() -> None:
    row = {"model": "chat", "benchmark": "sugarcrepe_pp", "subset": "all", "metric": "choice_3way"}
    row |= {"value": np.nan, "ci_low": np.nan, "ci_high": np.nan, "n": 10, "ties": 0, "unscored": 0}
    nothing = build_frame(SIMILARITIES, [])
    text = table([nothing], metrics=(), further=build_frame(METRICS, [row]))
    assert set(cells(text)["chat"]) == {"–"}


def test_intervals_are_shown_on_demand() -> None:
    found = cells(table([scored("m", 0)], metrics=("itt",), intervals=True))
    value, low, high = map(float, re.findall(r"[\d.]+", found["m"][0]))
    assert low < value < high


@pytest.mark.parametrize("name", ['a "b", c', "a\r"])
def test_csv_is_read_back(name: str) -> None:
    text = table([whole(name, 0)], style="csv", published=True, metrics=("itt",), subsets=("swap_obj",))
    head, *rows = csv.reader(io.StringIO(text))
    assert head == ["Model", "swap_obj itt", "Source"]
    assert {len(row) for row in rows} == {3}
    assert rows[0] == ["Instances", "245", ""]
    assert rows[2][0] == name
    assert float(rows[2][1]) > 0


def test_latex_is_balanced_and_escaped() -> None:
    name = r'a_b & 50% #1 {x} ~ ^ \end "q"'
    text = table(
        [scored(name, 0), scored("other", 1)], style="latex", subsets=("all", "swap_obj"), published=True
    )
    body = text[text.index("\\toprule") : text.index("\\bottomrule")]
    plain = re.sub(r"\\[{}&%$#_\\]", "", text)
    assert plain.count("{") == plain.count("}")
    assert text.count("\\begin{") == text.count("\\end{")
    shape = re.search(r"\\begin\{tabular\}\{(\w+)\}", text)
    assert shape is not None
    rows = [line for line in body.split("\n") if line.endswith("\\\\") and "multicolumn" not in line]
    assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(shape[1])}
    assert r"a\_b \& 50\% \#1 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{}end ''q''" in text
    assert "\\multicolumn{2}{c}{swap\\_obj}" in text
    assert "\\cmidrule(lr){2-3} \\cmidrule(lr){4-5}" in text
    assert not re.search(r"[±–×…’]", text)


def test_rankings_have_the_chance_of_their_candidates() -> None:
    of = BENCHMARKS["crepe_productivity"]
    rows = pd.DataFrame(
        {
            "instance_id": [f"i{i}" for i in range(1285)],
            "image_id": [f"image{i}" for i in range(1285)],
            "subsets": [["atom", "atom/n4"] if i < 1258 else ["swap", "swap/n4"] for i in range(1285)],
            "model": "m",
            "benchmark": of.name,
            "n_above": [0.0, 1.0] * 629 + [0.0] * 14 + [1.0] * 13,
            "n_tied": 0.0,
            "n_candidates": [6.0] * 1258 + [5.0] * 27,
            "score_type": "cosine",
        }
    )
    grid = build_paper_table(
        build_frame(SIMILARITIES, rows),
        of,
        metrics=("recall@1",),
        subsets=("atom/n4", "swap/n4"),
        published=True,
        bootstrap=Bootstrap(100, 0),
    )
    found = cells(render_table(grid, "markdown"))
    assert found["Chance"][:2] == ["16.67", "20.00"]
    assert found["m"][:2] == ["50.00", "51.85"]
    assert found["ALBEF"][:2] == ["38.71", "25.93"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ("i2t",)}, "No metric 'i2t' was scored"),
        ({"subsets": ("x",)}, "No subset 'x' was scored"),
    ],
)
def test_an_unknown_column_is_an_error(options: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        table([scored("m", 0)], **options)  # type: ignore[arg-type]


def test_nothing_measured_is_an_error() -> None:
    message = "Nothing was measured on benchmark 'sugarcrepe_pp'. The runs hold: other."
    with pytest.raises(DataError, match=re.escape(message)):
        table([scored("m", 0).assign(benchmark="other")])
    with pytest.raises(DataError, match=r"The runs hold: nothing\."):
        table([scored("m", 0).iloc[:0]])
