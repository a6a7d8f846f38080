"""The rates of a metamorphic audit count what each relation says, and the command writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from caramel import cli
from caramel.evaluation.metamorphic.cases import Case
from caramel.evaluation.metamorphic.rates import RELATIONS, SCORES, compute_rates
from caramel.utils.resampling import Bootstrap


def compute(*scores: tuple[float, float, float, float, float]) -> dict[str, tuple[float, int]]:
    """Return relation -> (rate, number of cases) of cases with these scores."""
    cases = [Case(f"{n}.png", "given", "a", "b", "c", "d", "e") for n in range(len(scores))]
    rows = pd.DataFrame(cases).assign(model="m", **dict(zip(SCORES, np.array(scores).T, strict=True)))
    rates = compute_rates(rows, Bootstrap(100, 0)).set_index("metric")
    return {name: (float(rates["value"][name]), int(rates["n"][name])) for name in RELATIONS}


def test_each_relation_is_counted_as_defined() -> None:
    # caption, with a true detail, with a false one, paraphrase, paraphrase with the false one
    rates = compute(
        (0.9, 0.8, 0.5, 0.9, 0.4),  # all hold
        (0.9, 0.4, 0.5, 0.9, 0.4),  # the true detail turns the choice round
        (0.5, 0.9, 0.5, 0.4, 0.9),  # a tie: the false detail does not lower the score; the paraphrase differs
        (0.4, 0.1, 0.9, 0.4, 0.9),  # wrong, and consistently so
    )
    assert rates == {
        "false_detail_lowers": (0.5, 4),
        "true_detail_keeps": (0.5, 2),
        "true_detail_wins": (0.5, 4),
        "paraphrase_agrees": (0.75, 4),
    }


def test_a_case_without_paraphrase_is_not_counted_as_one() -> None:
    rates = compute((0.9, 0.8, 0.5, np.nan, np.nan), (0.9, 0.8, 0.5, 0.9, 0.4))
    assert rates["paraphrase_agrees"] == (1.0, 1)
    assert rates["false_detail_lowers"] == (1.0, 2)


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that probes models with captions of three images."""
    monkeypatch.chdir(tmp_path)
    Path("images").mkdir()
    rows = []
    for number, noun in enumerate(("dog", "cat", "cup")):
        Image.new("RGB", (64, 64), (80 * number, 90, 160)).save(f"images/{number}.png")
        rows += [
            {"filename": f"{number}.png", "caption": text}
            for text in (f"A {noun}.", f"One {noun}, red{number}.")
        ]
    Path("captions.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            cli.main(["probe", *arguments, "--captions", "captions.jsonl", "--images", "images", "--out", "out",
                      "--n-bootstrap", "100"])  # fmt: skip
        return int(ended.value.code or 0)

    return run


def test_the_command_scores_a_model_and_writes_texts_scores_and_rates(
    probe: Callable[..., int], clip_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert probe(f"tiny=open_clip:{clip_folder}") == 0, capsys.readouterr().err
    cases, rates = pd.read_csv("out/cases.csv"), pd.read_csv("out/rates.csv")
    assert set(rates["metric"]) == set(RELATIONS)
    assert len(cases) == 3, "the longer caption of each image has all words of the shorter one"
    assert cases[list(SCORES)].notna().all(axis=None)
    held = (cases["score"] > cases["score_false"]).mean()
    assert rates.set_index("metric").loc["false_detail_lowers", "value"] == pytest.approx(held)


def test_a_blind_model_that_dislikes_length_fails_the_true_details(probe: Callable[..., int]) -> None:
    assert probe("blind:length") == 0
    assert len(pd.read_csv("out/rates.csv")) == len(RELATIONS)


def test_a_model_that_answers_in_words_is_refused(
    probe: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert probe("chat:gpt@http://127.0.0.1:9/v1") != 0
    assert "gives no score for an image and a text" in capsys.readouterr().err
