"""`caramel refine` writes a refined data set, its rejects and its report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caramel import cli
from caramel.sources.sugarcrepe_files import read_captions

Call = Callable[..., tuple[int, str, str]]


SMALL = ("--scorer", "probe", "--scorer", "words", "--attacker", "length", "--folds", "3")


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs `caramel refine` on made-up SugarCrepe files: exit code, stdout, stderr."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data"
    folder.mkdir()
    for subtype in ("swap_obj", "swap_att"):
        texts = [f"a {' '.join(f'w{i}' for i in rng.integers(30, size=5))}" for _ in range(300)]
        mark = rng.random(300) < np.repeat([0.2, 0.8], 150)
        texts = [
            text.replace("a ", "a purple ") if m else f"{text} w0"
            for text, m in zip(texts, mark, strict=True)
        ]
        rows = zip(texts[:150], texts[150:], strict=True)
        data = {
            str(i): {"filename": f"{subtype}{i // 2}.jpg", "caption": c, "negative_caption": n}
            for i, (c, n) in enumerate(rows)
        }
        (folder / f"{subtype}.json").write_text(json.dumps(data), encoding="utf-8")

    def run(*arguments: str, source: Path = folder) -> tuple[int, str, str]:
        try:
            cli.main(["refine", str(source), "--out", str(tmp_path / "out"), *arguments])
        except SystemExit as ended:
            said = capsys.readouterr()
            return int(ended.code or 0), said.out, said.err
        raise AssertionError("the command did not end")

    return run


def test_refine_writes_all_that_it_promises(call: Call, tmp_path: Path) -> None:
    code, said, error = call(*SMALL, "--target", "0.8", "--method", "adversarial", "--cell", "1")
    assert (code, error) == (0, "")
    assert "Target 0.8, all scorers: accepted: shown to be at most 80.0 %." in said
    out = tmp_path / "out"
    kept, rejects = (pd.read_parquet(out / f"{name}.parquet") for name in ("refined", "rejects"))
    assert len(kept) + len(rejects) == 300
    assert 20 < len(kept) < 300
    assert len(read_captions(out)) == len(kept)
    assert kept["caption"].str.match(r"A .*\.$").all()
    curve = pd.read_csv(out / "curve.csv")
    assert curve["method"].tolist() == ["none", "adversarial"]
    report = json.loads((out / "refine.json").read_text(encoding="utf-8"))
    assert report["rows_kept"] == len(kept)
    assert report["settings"]["scorers"] == ["probe", "words"]
    assert report["settings"]["acceptance"] == "equivalence"
    assert report["target"]["all_scorers"]["state"] == "accepted"
    after = report["best_blind_attacker"]["all_scorers"]["after"]
    before = report["best_blind_attacker"]["all_scorers"]["before"]
    assert after["ci_high"] <= 0.8
    assert after["accuracy"] < before["accuracy"]
    taught = report["best_blind_attacker"]["rejected_rows"]
    assert taught["before"] == before
    assert 0 < taught["after"]["ci_low"] < taught["after"]["accuracy"] < taught["after"]["ci_high"] < 1
    assert "rejected rows" in said
    assert f"Chosen: adversarial at 1, {len(kept)} of 300 rows ({len(rejects)} rejected)." in said
    assert f"{100 * after['accuracy']:.1f} %" in said


def test_the_same_seed_gives_the_same_files(call: Call, tmp_path: Path) -> None:
    found = []
    for seed in ("1", "1", "2"):
        assert call(*SMALL, "--method", "aflite+adversarial", "--seed", seed)[0] == 0
        found.append((tmp_path / "out" / "refined.parquet").read_bytes())
    assert found[0] == found[1] != found[2]


def test_rows_says_how_many_are_kept(call: Call, tmp_path: Path) -> None:
    code, said, _ = call(*SMALL, "--method", "length", "--rows", "101")
    assert code == 0
    assert len(pd.read_parquet(tmp_path / "out" / "refined.parquet")) in (100, 101)
    reasons = set(pd.read_parquet(tmp_path / "out" / "rejects.parquet")["reason"])
    assert "left out at random: fewer rows were asked for" in reasons
    assert "length" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "No setting is shown to bring the blind attacker to 0.5: the lowest interval ends at 0."),
        (("--acceptance", "not_refuted"), "No setting brings the blind attacker to 0.5: the lowest is 0."),
    ],
)
def test_a_target_out_of_reach_says_how_low_it_went_and_leaves_the_curve(
    call: Call, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    code, said, error = call(*SMALL, "--method", "length", "--target", "0.5", *options)
    assert code == 1
    assert message in error
    assert "Traceback" not in error
    assert "none" in said
    assert (tmp_path / "out" / "curve.csv").exists()
    assert not (tmp_path / "out" / "refined.parquet").exists()


def test_a_set_too_small_for_a_claim_is_taken_by_name_alone_and_is_said_to_be_that(
    call: Call, tmp_path: Path
) -> None:
    options = (*SMALL, "--method", "adversarial", "--cell", "1", "--target", "0.55")
    code, said, error = call(*options)
    assert code == 1
    assert "undecided about 55.0 %: too few rows" in error
    assert re.search(r"adversarial.* (accepted|undecided) +[\d,]+\n", said), (
        "the table says what each would need"
    )
    code, said, error = call(*options, "--acceptance", "not_refuted")
    assert code == 0
    assert re.search(r"Target 0.55, all scorers: undecided .*\. Accepted as not refuted\.", error)
    report = json.loads((tmp_path / "out" / "refine.json").read_text(encoding="utf-8"))
    assert report["target"]["all_scorers"]["state"] == "undecided"
    assert report["target"]["all_scorers"]["rows_needed"] > report["rows_kept"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scorer", "probe", "--attacker", "probe"), "is not used for refinement"),
        (("--scorer", "prob"), "Did you mean 'probe'?"),
        (("--scorer", "probe", "--scorer", "probe"), "different"),
        (("--scorer", "probe", "--rows", "302", "--method", "length"), "keeps 302 rows"),
    ],
)
def test_senseless_settings_are_explained(call: Call, arguments: tuple[str, ...], message: str) -> None:
    code, _, error = call(*arguments)
    assert code == 1
    assert message in error
    assert "Traceback" not in error


def test_a_missing_data_set_is_explained(call: Call, tmp_path: Path) -> None:
    code, _, error = call(source=tmp_path / "nowhere")
    assert code == 1
    assert "nowhere" in error


def test_rows_of_no_use_are_explained(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "swap_obj.json"
    row = {"filename": "0.jpg", "caption": "a cat", "negative_caption": "A cat."}
    path.write_text(json.dumps({"0": row}), encoding="utf-8")
    code, _, error = call(source=path)
    assert code == 1
    assert "same words in the same order" in error
