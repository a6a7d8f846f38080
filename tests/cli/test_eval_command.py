"""`caramel eval` scores models on a small SugarCrepe and a small CLIP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from eval_calls import run_eval

Call = Callable[..., tuple[int, str, str]]


def test_eval_writes_tables_and_prints_a_table(eval_call: Call, clip_folder: Path) -> None:
    code, out, _ = run_eval(eval_call, f"tiny=open_clip:{clip_folder}", "out")
    assert code == 0
    metrics = pd.read_csv("out/metrics.csv")
    assert metrics.columns.tolist()[:9] == [
        "model", "benchmark", "subset", "metric", "value", "ci_low", "ci_high", "n", "ties",
    ]  # fmt: skip
    assert ((metrics["value"] >= 0) & (metrics["value"] <= 1)).all()
    pd.testing.assert_frame_equal(pd.read_parquet("out/metrics.parquet"), metrics, check_dtype=False)
    similarities = pd.read_parquet("out/similarities.parquet")
    assert len(similarities) == 32
    hits = similarities["s_c0_i0"] > similarities["s_c1_i0"]
    assert metrics.set_index("subset").loc["all", "value"] == pytest.approx(hits.mean())
    assert "swap_att" in out
    assert f"{100 * hits.mean():.1f} [" in out


def test_rows_of_a_benchmark_that_ask_nothing_are_counted_named_and_written(eval_call: Call) -> None:
    folder = Path("data/crepe_productivity/atom")
    folder.mkdir(parents=True)
    cells = ["\"['a cat', 'a bus']\"", "[]", "\"('a cow', 'a bag')\"", "nothing"]
    lines = [f"{n},a dog {n},{cell},1,2,9,8" for n, cell in enumerate(cells)]
    head = "image_id,caption,hard_negs,x,y,width,height"
    (folder / "prod_vg_hard_negs_atom_complexity_4.csv").write_text("\n".join([head, *lines, ""]))
    words = ["eval", "--model", "blind:length", "--benchmark", "crepe_productivity", "--data", "data"]
    code, _, error = eval_call(*words, "--out", "out", "--n-bootstrap", "100")
    assert code == 0
    assert "Excluded from crepe_productivity: 1: no hard negative, first at" in error
    assert "1: hard negatives that are no captions, first at" in error
    left_out = pd.read_parquet("out/left_out.parquet")
    assert left_out["stage"].tolist() == ["crepe_productivity"] * 2
    assert "row 2 (line 3), column 'hard_negs'" in left_out["id"][0]
    assert len(pd.read_parquet("out/similarities.parquet")) == 2
    assert eval_call("audit", "data/crepe_productivity", "--out", "audit", "--scorer", "length")[
        2
    ].startswith("Excluded from")


@pytest.mark.parametrize(
    "address",
    [
        "http://me:PLANTED@127.0.0.1:9/v1",
        "http://127.0.0.1:9/v1?key=PLANTED",
        "http://127.0.0.1:9/v1#PLANTED",
        "http://127.0.0.1:9/v1#no_seed,PLANTED",
    ],
)
def test_a_model_whose_address_holds_a_secret_is_refused_before_a_run_is_made(
    eval_call: Call, address: str
) -> None:
    code, out, err = eval_call(
        "eval", "--model", f"chat:m@{address}", "--benchmark", "sugarcrepe", "--data", "data", "--images", "images",
        "--out", "o",
    )  # fmt: skip
    assert code == 1
    assert "CARAMEL_CHAT_KEY" in err
    assert "PLANTED" not in out + err
    assert not Path("mlruns").exists()


def test_a_dry_run_says_what_is_missing_and_writes_nothing(eval_call: Call, tmp_path: Path) -> None:
    Path("images", f"{3:012}.jpg").unlink()
    code, out, _ = run_eval(eval_call, f"open_clip:{tmp_path}/no-such-folder", "out", "--dry-run")
    assert code == 1
    assert "no-such-folder" in out
    missing, unknown = out.index("000000000003.jpg: missing"), out.index("no-such-folder")
    assert missing < unknown, "a long list of images would scroll the model away"
    assert not Path("out").exists()


def test_a_dry_run_with_all_at_hand_says_so(eval_call: Call, clip_folder: Path) -> None:
    code, out, _ = run_eval(eval_call, f"open_clip:{clip_folder}", "out", "--dry-run")
    assert (code, out.strip()) == (0, "Nothing is missing.")


def test_tables_of_an_earlier_run_do_not_stand_beside_new_ones(eval_call: Call) -> None:
    Path("out").mkdir()
    Path("out/answers.parquet").write_text("of an earlier run")
    assert run_eval(eval_call, "blind:length", "out")[0] == 0
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "metrics.csv",
        "metrics.parquet",
        "similarities.parquet",
    ]


def test_a_folder_that_cannot_be_written_is_named_before_any_work(eval_call: Call) -> None:
    Path("file").write_text("")
    code, _, err = run_eval(eval_call, "blind:length", "file/out")
    assert code == 1
    assert "'file/out'" in err
    assert not Path("work").exists()


def test_an_error_without_a_file_is_shown_as_it_is(eval_call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("the tokenizer is nowhere")

    monkeypatch.setattr("caramel.evaluation.evaluate.run_evaluation", broken)
    code, _, err = run_eval(eval_call, "blind:length", "out")
    assert (code, err.strip()) == (1, "Error: the tokenizer is nowhere")


def test_a_number_of_resamples_that_would_never_end_is_refused_by_commands_and_params(
    eval_call: Call,
) -> None:
    from annotated_types import Le

    from caramel.config.sections.results import Evaluate

    run_eval(eval_call, "blind:length", "a")
    code, _, err = eval_call("compare", "a", "a", "--n-bootstrap", "999999999999")
    assert code == 2
    assert "100<=x<=100000" in err
    assert Le(100_000) in Evaluate.model_fields["n_bootstrap"].metadata


def test_a_part_of_a_benchmark_says_so_and_stands_beside_no_published_row(
    eval_call: Call, clip_folder: Path
) -> None:
    code, out, _ = run_eval(eval_call, f"tiny=open_clip:{clip_folder}", "a", "--limit", "5")
    assert code == 0
    assert "Not the released sugarcrepe: all has 5 of 7,511 instances." in out
    assert "the first 5 instances" in out
    code, out, _ = eval_call(
        "metrics", "a", "--benchmark", "sugarcrepe", "--out", "b", "--n-bootstrap", "100"
    )
    assert "all has 5 of 7,511 instances" in out
    code, out, _ = eval_call("table", "a", "--benchmark", "sugarcrepe", "--n-bootstrap", "100")
    assert "5 of 7,511" in out
    assert "76.56" not in out
    assert "not measured completely: " in out
    run_eval(eval_call, f"other=open_clip:{clip_folder}", "c", "--limit", "5")
    code, out, _ = eval_call("compare", "a", "c", "--n-bootstrap", "100")
    assert code == 0
    assert out.splitlines()[0].split()[-1] == "n"
    assert "all has 5 of 7,511 instances" in out
