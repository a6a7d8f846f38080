import json
import math

import numpy as np
import pandas as pd
import pytest
from annotated import annotated

from caramel.annotation.agreement.annotators import describe_annotators
from caramel.annotation.agreement.summary import summarise_agreement
from caramel.annotation.agreement.text_tables import format_agreement, format_annotators
from caramel.utils.resampling import Bootstrap

BOOTSTRAP = Bootstrap(200, 0)


def test_options_at_a_fixed_place_do_not_make_a_position_bias() -> None:
    """`none` always stands last: whoever often chooses it does not prefer the last place."""
    rows = annotated({"ada": {f"i{n:02d}": ("none", "0")[n % 5 == 0] for n in range(60)}}, task="choose")
    rows["order"] = [json.dumps([*("01", "10")[n % 2], "none"]) for n in range(60)]
    described = describe_annotators(rows, "choose", bootstrap=BOOTSTRAP).iloc[0]
    assert described["position_p"] > 0.05
    assert described["flags"] == []


def test_an_annotator_alone_has_no_agreement_and_no_flag() -> None:
    rows = annotated({"<b>ada</b>": {f"i{n}": ("yes", "no")[n % 2] for n in range(40)}}, task="true")
    described = describe_annotators(rows, "true", bootstrap=BOOTSTRAP)
    agreement = summarise_agreement(rows, "true", bootstrap=BOOTSTRAP)
    assert math.isnan(described.loc[0, "kappa"])
    assert described.loc[0, "flags"] == []
    assert agreement["value"].isna().all()
    assert "<b>ada</b>" in format_annotators(described)
    assert "undefined" in format_agreement(agreement)


def test_the_same_answer_to_all_leaves_kappa_undefined_and_the_agreement_perfect() -> None:
    answers = {f"i{n}": "yes" for n in range(40)}
    rows = annotated({"ada": answers, "bob": answers}, task="true")
    agreement = summarise_agreement(rows, "true", bootstrap=BOOTSTRAP).set_index("measure")
    assert agreement.loc["observed_agreement", "value"] == 1.0
    assert agreement.loc[["krippendorff_alpha", "fleiss_kappa", "cohen_kappa"], "value"].isna().all()
    assert describe_annotators(rows, "true", bootstrap=BOOTSTRAP)["flags"].tolist() == [[], []]


def test_two_good_candidates_are_no_disagreement() -> None:
    rows = annotated(
        {"ada": {"a": "0", "b": "none", "c": "1"}, "bob": {"a": "3", "b": "none", "c": "1"}}, task="choose"
    )
    agreement = summarise_agreement(rows, "choose", bootstrap=BOOTSTRAP).set_index("measure")
    assert agreement.loc["cohen_kappa", "value"] == 1.0
    assert agreement.loc["mean_cohen_kappa", "value"] == 1.0


def test_texts_have_an_observed_agreement_alone() -> None:
    rows = annotated({"ada": {"a": "A.", "b": "B."}, "bob": {"a": "A.", "b": "C."}}, task="correct")
    agreement = summarise_agreement(rows, "correct", bootstrap=BOOTSTRAP)
    assert agreement["measure"].tolist() == ["observed_agreement"]
    assert agreement.loc[0, "value"] == 0.5
    assert describe_annotators(rows, "correct", bootstrap=BOOTSTRAP)["kappa"].isna().all()


def test_texts_without_an_answer_are_no_annotator_s() -> None:
    answered = annotated({"ada": {"a": "A."}, "bob": {"a": "A."}}, task="correct")
    unanswered = annotated({"": {"b": None}}, task="correct", role="unanswered", skipped=None)
    described = describe_annotators(pd.concat([answered, unanswered]), "correct", bootstrap=BOOTSTRAP)
    assert described["annotator"].tolist() == ["ada", "bob"]


def test_missing_times_leave_the_pace_unknown() -> None:
    answers = {f"i{n}": ("yes", "no")[n % 2] for n in range(40)}
    rows = annotated({"ada": answers, "bob": answers}, task="true", seconds=None).astype({"seconds": float})
    described = describe_annotators(rows, "true", bootstrap=BOOTSTRAP)
    assert described["pace"].isna().all()
    assert described["flags"].tolist() == [[], []]


@pytest.mark.parametrize("annotators", [1, 2])
def test_few_answers_are_not_judged(annotators: int) -> None:
    rows = annotated(
        {f"a{m}": {f"i{n}": ("yes", "no")[(n + m) % 2] for n in range(20)} for m in range(annotators)},
        task="true",
    )
    assert all(flags == [] for flags in describe_annotators(rows, "true", bootstrap=BOOTSTRAP)["flags"])


def draw_late_errors(late: dict[str, float], seed: int, items: int = 120) -> pd.DataFrame:
    """Return answers of annotators who judge the items in one order: 10 % wrong, then these shares of the second half."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=items)
    answers = {}
    for name, rate in late.items():
        is_wrong = rng.random(items) < np.where(np.arange(items) < items // 2, 0.1, rate)
        answers[name] = {f"i{n:03d}": ("no", "yes")[truth[n] ^ int(is_wrong[n])] for n in range(items)}
    return annotated(answers, task="true")


def count_tired(late: dict[str, float], studies: int = 10) -> dict[str, int]:
    """Return in how many studies each annotator is flagged `tired`."""
    counts = dict.fromkeys(late, 0)
    for seed in range(studies):
        described = describe_annotators(draw_late_errors(late, seed), "true", bootstrap=Bootstrap(20, 0))
        for name, flags in zip(described["annotator"], described["flags"], strict=True):
            counts[name] += "tired" in flags
    return counts


def test_who_tires_is_flagged_and_the_others_are_not_though_their_agreement_falls_too() -> None:
    counts = count_tired({"tired": 0.5, "ada": 0.1, "bob": 0.1, "cyd": 0.1, "dan": 0.1})
    assert counts.pop("tired") >= 9
    assert set(counts.values()) == {0}


def test_late_items_that_are_harder_for_all_make_nobody_tired() -> None:
    assert sum(count_tired(dict.fromkeys(("ada", "bob", "cyd", "dan", "eve"), 0.3)).values()) <= 1


def test_of_two_people_who_tired_cannot_be_told() -> None:
    counts = count_tired({"tired": 0.5, "ada": 0.1})
    assert counts["tired"] == counts["ada"] >= 8
