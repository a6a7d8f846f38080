"""The commands that score models and read scores, on a small SugarCrepe and a small CLIP."""

import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from small_releases import write_sugarcrepe

from caramel import cli

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs a command beside data/sugarcrepe and images/: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    Path("images").mkdir()
    colours = ("red", "blue", "green", "black")
    pairs = [
        (
            f"A {colours[n % 4]} car and a {colours[(n + 1) % 4]} cup number {n}.",
            f"A {colours[(n + 2) % 4]} car and a {colours[n % 4]} cup number {n}.",
        )
        for n in range(16)
    ]
    write_sugarcrepe(Path("data/sugarcrepe"), dict.fromkeys(("replace_att", "swap_att"), pairs), 8)
    for n in range(8):
        pixels = np.random.default_rng(n).integers(0, 255, (48, 64, 3), dtype=np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG")
        Path("images", f"{n:012}.jpg").write_bytes(file.getvalue())

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def evaluated(call: Call, model: str, out: str, *more: str) -> tuple[int, str, str]:
    return call(
        "eval", "--model", model, "--benchmark", "sugarcrepe", "--data", "data", "--images", "images",
        "--out", out, "--bootstrap", "100", *more,
    )  # fmt: skip


def test_eval_writes_tables_and_prints_a_table(call: Call, clip_folder: Path) -> None:
    code, out, _ = evaluated(call, f"tiny=open_clip:{clip_folder}", "out")
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


def test_rows_of_a_benchmark_that_ask_nothing_are_counted_named_and_written(call: Call) -> None:
    folder = Path("data/crepe_productivity/atom")
    folder.mkdir(parents=True)
    cells = ["\"['a cat', 'a bus']\"", "[]", "\"('a cow', 'a bag')\"", "nothing"]
    lines = [f"{n},a dog {n},{cell},1,2,9,8" for n, cell in enumerate(cells)]
    head = "image_id,caption,hard_negs,x,y,width,height"
    (folder / "prod_vg_hard_negs_atom_complexity_4.csv").write_text("\n".join([head, *lines, ""]))
    words = ["eval", "--model", "blind:length", "--benchmark", "crepe_productivity", "--data", "data"]
    code, _, error = call(*words, "--out", "out", "--bootstrap", "100")
    assert code == 0
    assert "Left out of crepe_productivity: 1: no hard negative, first at" in error
    assert "1: hard negatives that are no captions, the first" in error
    left_out = pd.read_parquet("out/left_out.parquet")
    assert left_out["stage"].tolist() == ["crepe_productivity"] * 2
    assert "row 2 (line 3), column 'hard_negs'" in left_out["id"][0]
    assert len(pd.read_parquet("out/similarities.parquet")) == 2
    assert call("audit", "data/crepe_productivity", "--out", "audit", "--scorer", "length")[2].startswith(
        "Left out of"
    )


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
    call: Call, address: str
) -> None:
    code, out, err = call(
        "eval", "--model", f"chat:m@{address}", "--benchmark", "sugarcrepe", "--data", "data", "--images", "images",
        "--out", "o",
    )  # fmt: skip
    assert code == 1
    assert "CARAMEL_CHAT_KEY" in err
    assert "PLANTED" not in out + err
    assert not Path("mlruns").exists()


def test_a_dry_run_says_what_is_missing_and_writes_nothing(call: Call, tmp_path: Path) -> None:
    Path("images", f"{3:012}.jpg").unlink()
    code, out, _ = evaluated(call, f"open_clip:{tmp_path}/no-such-folder", "out", "--dry-run")
    assert code == 1
    assert "no-such-folder" in out
    assert "000000000003.jpg: missing" in out
    assert not Path("out").exists()


def test_a_dry_run_with_all_at_hand_says_so(call: Call, clip_folder: Path) -> None:
    code, out, _ = evaluated(call, f"open_clip:{clip_folder}", "out", "--dry-run")
    assert (code, out.strip()) == (0, "Nothing is missing.")


def test_metrics_recomputes_what_eval_wrote(call: Call, clip_folder: Path) -> None:
    evaluated(call, f"tiny=open_clip:{clip_folder}", "out")
    code, _, _ = call(
        "metrics",
        "--benchmark",
        "sugarcrepe",
        "out/similarities.parquet",
        "--out",
        "again",
        "--bootstrap",
        "100",
    )
    assert code == 0
    pd.testing.assert_frame_equal(pd.read_csv("again/metrics.csv"), pd.read_csv("out/metrics.csv"))


def test_compare_of_a_model_with_itself_finds_nothing(call: Call, clip_folder: Path) -> None:
    evaluated(call, f"tiny=open_clip:{clip_folder}", "a")
    evaluated(call, f"same=open_clip:{clip_folder}", "b")
    code, out, _ = call("compare", "a", "b", "--out", "c", "--bootstrap", "100")
    assert code == 0
    rows = pd.read_csv("c/comparison.csv")
    assert (rows["difference"] == 0).all()
    assert not rows["significant"].any()
    assert "+0.0" in out


def test_table_shows_models_beside_published_rows(call: Call, clip_folder: Path) -> None:
    evaluated(call, f"tiny=open_clip:{clip_folder}", "a")
    evaluated(call, "blind:length", "b")
    code, out, _ = call("table", "a", "b", "--benchmark", "sugarcrepe", "--bootstrap", "100")
    assert code == 0
    assert "tiny" in out
    assert "blind:length" in out
    code, out, _ = call("table", "a", "--benchmark", "sugarcrepe", "--style", "latex", "--out", "t.tex")
    assert code == 0
    assert "\\toprule" in Path("t.tex").read_text()


def test_tables_of_an_earlier_run_do_not_stand_beside_new_ones(call: Call) -> None:
    Path("out").mkdir()
    Path("out/answers.parquet").write_text("of an earlier run")
    assert evaluated(call, "blind:length", "out")[0] == 0
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "metrics.csv",
        "metrics.parquet",
        "similarities.parquet",
    ]


def test_a_folder_that_cannot_be_written_is_named_before_any_work(call: Call) -> None:
    Path("file").write_text("")
    code, _, err = evaluated(call, "blind:length", "file/out")
    assert code == 1
    assert "'file/out'" in err
    assert not Path("work").exists()


def test_an_error_without_a_file_is_shown_as_it_is(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("the tokenizer is nowhere")

    monkeypatch.setattr("caramel.evaluation.evaluate.run_evaluation", broken)
    code, _, err = evaluated(call, "blind:length", "out")
    assert (code, err.strip()) == (1, "Error: the tokenizer is nowhere")


def test_one_model_in_two_runs_is_not_counted_twice_in_a_table(call: Call) -> None:
    evaluated(call, "blind:length", "a")
    shutil.copytree("a", "b")
    code, _, err = call("table", "a", "b", "--benchmark", "sugarcrepe")
    assert code == 1
    assert "Several runs hold the model 'blind:length' on 'sugarcrepe'" in err


def test_table_takes_what_metrics_wrote(tmp_path: Path) -> None:
    """Others' verdicts have no rule of a score: no published row by one stands beside them."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("caramel")), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)

    rows = "".join(f"{n}.jpg,swap_obj,{n % 4 != 0}\n" for n in range(8))
    (tmp_path / "theirs.csv").write_text("filename,subtype,correct\n" + rows)
    assert run("metrics", "--benchmark", "sugarcrepe", "theirs.csv", "--out", "theirs").returncode == 0
    found = run("table", "theirs", "--benchmark", "sugarcrepe", "--subset", "all")
    assert (found.returncode, found.stderr) == (0, "")
    assert re.search(r"\| theirs +\| 75\.0", found.stdout)
    assert "CLIP ViT-B/32" not in found.stdout
    shutil.copytree(tmp_path / "theirs", tmp_path / "again")
    twice = run("table", "theirs", "again", "--benchmark", "sugarcrepe")
    assert (twice.returncode, "Several runs hold the model 'theirs'" in twice.stderr) == (1, True)


@pytest.mark.parametrize(
    ("place", "what"), [("nowhere", "is not there"), ("images", "holds no"), ("mine.csv", "is no file of")]
)
def test_what_is_no_run_is_said_to_be_none(call: Call, place: str, what: str) -> None:
    Path("mine.csv").write_text("a,b\n1,2\n")
    code, _, err = call("compare", place, place)
    assert code == 1
    assert f"{place!r} {what}" in err
    assert "caramel eval" in err
    assert "dvc" not in err


def test_an_unknown_benchmark_lists_the_known_ones(call: Call) -> None:
    code, _, err = call("benchmarks", "sugarcreep")
    assert code == 1
    assert "Did you mean 'sugarcrepe'?" in err


def test_every_benchmark_says_what_to_put_where_and_what_it_was_checked_against(call: Call) -> None:
    from caramel.registry import BENCHMARKS

    for name in BENCHMARKS:
        code, out, _ = call("benchmarks", name)
        assert code == 0
        assert "Checked against: " in out
        assert len(out.splitlines()) >= 4, name


def test_a_number_of_resamples_that_would_never_end_is_refused_by_commands_and_params(call: Call) -> None:
    from annotated_types import Le

    from caramel.config.schema import Evaluate

    evaluated(call, "blind:length", "a")
    code, _, err = call("compare", "a", "a", "--bootstrap", "999999999999")
    assert code == 2
    assert "100<=x<=100000" in err
    assert Le(100_000) in Evaluate.model_fields["bootstrap"].metadata


def corrected(subtype: str = "swap_att") -> None:
    """Let every second instance of a subtype have its captions the other way round, as a later release may."""
    path = Path("data/sugarcrepe", f"{subtype}.json")
    rows = json.loads(path.read_text())
    for row in [row for key, row in rows.items() if int(key) % 2]:
        row["caption"], row["negative_caption"] = row["negative_caption"], row["caption"]
    path.write_text(json.dumps(rows))


def test_results_of_two_releases_with_other_texts_stand_beside_each_other_nowhere(
    call: Call, clip_folder: Path
) -> None:
    assert evaluated(call, f"a=open_clip:{clip_folder}", "first")[0] == 0
    corrected()
    assert evaluated(call, f"b=open_clip:{clip_folder}", "second")[0] == 0
    for words in (
        ("compare", "first", "second"),
        ("table", "first", "second", "--benchmark", "sugarcrepe"),
        ("metrics", "first", "second", "--benchmark", "sugarcrepe", "--out", "again"),
    ):
        code, out, err = call(*words)
        assert (code, out) == (1, ""), words
        assert "8 of 32 instances have the same id and other texts" in err, words
        assert "'swap_att-1' of sugarcrepe" in err
        assert "different releases" in err
    assert not Path("again/metrics.csv").exists()


def test_a_model_that_looks_at_no_image_is_compared_with_one_that_does(call: Call, clip_folder: Path) -> None:
    assert evaluated(call, f"a=open_clip:{clip_folder}", "first")[0] == 0
    assert evaluated(call, "blind:length", "second")[0] == 0
    hashes = pd.read_parquet("second/similarities.parquet")[["texts_hash", "images_hash"]]
    assert hashes["texts_hash"].notna().all()
    assert hashes["images_hash"].isna().all()
    assert call("compare", "first", "second")[0] == 0


def test_results_on_other_images_of_the_same_names_are_not_compared(call: Call, clip_folder: Path) -> None:
    assert evaluated(call, f"a=open_clip:{clip_folder}", "first")[0] == 0
    shutil.copy("images/000000000001.jpg", "images/000000000000.jpg")
    assert evaluated(call, f"a=open_clip:{clip_folder}", "second")[0] == 0
    code, _, err = call("compare", "first", "second")
    assert code == 1
    assert "4 of 32 instances have the same id and other images" in err


def test_a_part_of_a_benchmark_says_so_and_stands_beside_no_published_row(
    call: Call, clip_folder: Path
) -> None:
    code, out, _ = evaluated(call, f"tiny=open_clip:{clip_folder}", "a", "--limit", "5")
    assert code == 0
    assert "Not the released sugarcrepe: all has 5 of 7,511 instances." in out
    assert "the first 5 instances" in out
    code, out, _ = call("metrics", "a", "--benchmark", "sugarcrepe", "--out", "b", "--bootstrap", "100")
    assert "all has 5 of 7,511 instances" in out
    code, out, _ = call("table", "a", "--benchmark", "sugarcrepe", "--bootstrap", "100")
    assert "5 of 7,511" in out
    assert "76.56" not in out
    assert "not measured whole: " in out
    evaluated(call, f"other=open_clip:{clip_folder}", "c", "--limit", "5")
    code, out, _ = call("compare", "a", "c", "--bootstrap", "100")
    assert code == 0
    assert out.splitlines()[0].split()[-1] == "n"
    assert "all has 5 of 7,511 instances" in out
