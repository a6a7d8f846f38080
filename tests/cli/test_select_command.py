"""`caramel select` keeps the best negatives, and says what each rule left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from caramel import cli
from caramel.sources.sugarcrepe_files import read_captions

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def select(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs `caramel select` on 60 rows of made-up captions: exit code, stdout, stderr."""
    source = tmp_path / "mine.csv"
    ends = [".", "?", ""]
    rows = [
        {
            "image_id": f"{i}.jpg",
            "subtype": "swap_obj",
            "caption": f"A cat sits on box {i}.",
            "negative_caption": f"A box {i} sits on {'a ' * (i % 2)}cat{ends[i % 3]}",
        }
        for i in range(60)
    ]
    pd.DataFrame(rows).to_csv(source, index=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["select", str(source), "--out", str(tmp_path / "out"), *arguments])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def test_select_keeps_the_best_and_says_what_each_rule_left_out(select: Call, tmp_path: Path) -> None:
    code, said, error = select("--scorer", "length", "--percentile", "50", "--cell", "1")
    assert (code, error) == (0, "")
    out = tmp_path / "out"
    kept, rejects = (pd.read_parquet(out / f"{name}.parquet") for name in ("refined", "rejects"))
    assert len(kept) + len(rejects) == 60
    assert len(kept)
    assert kept["negative_caption"].str.endswith(".").all()
    report = json.loads((out / "selection.json").read_text(encoding="utf-8"))
    assert report["rejected"] == rejects["reason"].value_counts().to_dict()
    assert report["rejected"]["the negative is a question"] > 0
    assert report["rejected"]["below the percentile of its subtype under length"] > 0
    assert f"{len(kept)}  kept, of 60." in said
    assert len(read_captions(out)) == len(kept)


def test_select_leaves_out_what_a_model_cannot_tell_from_its_caption(
    select: Call, tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        select("--scorer", "length", "--similarity", "counting:1")[0] == 0
    )  # one dimension: a cosine of 1 or -1
    report = json.loads((tmp_path / "out" / "selection.json").read_text(encoding="utf-8"))
    assert report["similarity"] == "counting:1"
    assert 10 < report["rejected"]["the negative is as good as its caption"] < 50
    code, _, error = select("--scorer", "length", "--similarity", "nothing:1")
    assert code == 1
    assert "its family cannot be told" in error


def test_select_does_not_score_again_what_it_has_scored(select: Call, tmp_path: Path) -> None:
    assert select("--scorer", "length")[0] == 0
    shards = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "scores").rglob("*.parquet")}
    assert select("--scorer", "length", "--percentile", "10")[0] == 0
    again = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "scores").rglob("*.parquet")}
    results = {path for path in shards if path.parent.name == "scores"}
    assert results
    assert {path: again[path] for path in results} == {path: shards[path] for path in results}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing option '--scorer'"),
        (("--scorer", "lenght"), "Did you mean 'length'?"),
        (("--scorer", "length", "--scorer", "length"), "different"),
        (("--scorer", "length", "--percentile", "101"), "101"),
    ],
)
def test_senseless_settings_of_select_are_explained(
    select: Call, arguments: tuple[str, ...], message: str
) -> None:
    code, _, error = select(*arguments)
    assert code
    assert message in error
    assert "Traceback" not in error
