import hashlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from annotated import decided
from stored_images import indexed

from caramel.annotation.content import hash_judged
from caramel.errors import BackendError, DataError
from caramel.interfaces.judge import JudgedImages
from caramel.registry import JUDGES
from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.sources.images.filters import AMBIGUOUS, NO_FAITHFUL, FilterSettings, filter_images
from caramel.sources.images.people_judge import PeopleJudge

NAMES = ("a", "b")
FILES = {f"{n}{c}": f"{n}{c}".encode() for n in NAMES for c in range(2)}
COMMON = {"checkpoint": "", "device": "cpu", "allow_unmentioned_objects": False}


def sha256(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


CHOOSE = {n: hash_judged(["p"], [sha256(f"{n}0"), sha256(f"{n}1")]) for n in NAMES}


def fits_of(*images: str, positives: bool = False) -> dict[str, str]:
    """Return the content of items of task ``fits`` with these candidates."""
    return {i[0]: hash_judged([i[0]], [sha256(f"{i}+" if positives else i[0]), sha256(i)]) for i in images}


def judged(folder, *decisions: pd.DataFrame, positives: bool = False) -> JudgedImages:
    write_table(DECISIONS, pd.concat(decisions), folder / "decisions.parquet")
    rows = [
        {"negative_id": n, "candidate": c, "image_id": f"{n}{c}", "seed": 0, "generator": "g", "prompt": "p"}
        | {"positive_image_id": f"{n}{c}+" if positives else None}
        for n in NAMES
        for c in range(2)
    ]
    files = FILES | ({f"{name}+": data + b"+" for name, data in FILES.items()} if positives else {})
    negatives = [
        {
            "negative_id": n,
            "pair_id": n,
            "negative_caption": f"not {n}",
            "type": "swap",
            "subtype": "swap_obj",
        }
        for n in NAMES
    ]
    pairs = [{"pair_id": n, "image_id": n, "caption": n, "split": "test", "source": "s"} for n in NAMES]
    return JudgedImages(
        str(folder),
        build_frame(CANDIDATES, rows),
        indexed(files),
        build_frame(NEGATIVES, negatives),
        build_frame(PAIRS, pairs),
        indexed(NAMES),
    )


def filtered(images: JudgedImages, **judges):
    files = FILES | {f"{name}+": data + b"+" for name, data in FILES.items()}
    people = JUDGES["people"](**COMMON, judged=images)
    return filter_images(
        images.candidates,
        images.images,
        files,
        images.negatives,
        images.pairs,
        **{"judge": people, "second_judge": None} | {name: judge or people for name, judge in judges.items()},
        settings=FilterSettings(faithfulness_threshold=0.5, margin=0.0, keep_ambiguous=[]),
    )


@pytest.mark.parametrize("positives", [False, True])
def test_the_candidate_that_people_chose_is_kept_if_it_does_not_fit_the_positive_caption(
    tmp_path, positives
) -> None:
    images = judged(
        tmp_path,
        decided("choose", {"a": "1", "b": "0"}, contents=CHOOSE),
        decided("fits", {"a": "positive", "b": "both"}, contents=fits_of("a1", "b0", positives=positives)),
        positives=positives,
    )
    result = filtered(images)
    chosen = result.choices.dropna(subset="chosen_by")
    assert chosen[["negative_id", "candidate"]].to_numpy().tolist() == [["a", 1]]
    assert result.rejects[["id", "reason"]].to_numpy().tolist() == [["b", AMBIGUOUS]]


@pytest.mark.parametrize("verdict", ["negative", "neither", "both", None])
def test_anything_but_the_positive_image_alone_is_ambiguous(tmp_path, verdict) -> None:
    images = judged(
        tmp_path,
        decided("choose", {"a": "1", "b": "none"}, contents=CHOOSE),
        decided("fits", {"a": verdict}, contents=fits_of("a1")),
    )
    assert filtered(images).rejects["reason"].tolist() == [AMBIGUOUS, NO_FAITHFUL]


def test_a_tie_is_no_choice(tmp_path) -> None:
    images = judged(tmp_path, decided("choose", {"a": None, "b": "none"}, contents=CHOOSE))
    assert filtered(images).rejects["reason"].tolist() == [NO_FAITHFUL, NO_FAITHFUL]


def test_people_may_judge_ambiguity_alone(tmp_path) -> None:
    fits = {(f"{n}{c}", f"not {n}"): float(c == 0) for n in NAMES for c in range(2)}

    class Model(PeopleJudge):
        name = "model"

        def score_match(self, images, captions):
            return np.array([fits.get((i.decode(), c), 0.9) for i, c in zip(images, captions, strict=True)])

    images = judged(
        tmp_path, decided("fits", {"a": "positive", "b": "negative"}, contents=fits_of("a0", "b0"))
    )
    result = filtered(images, judge=Model({}, {}), ambiguity_judge=None)
    assert result.choices.dropna(subset="chosen_by")["image_id"].tolist() == ["a0"]
    images = judged(tmp_path, decided("fits", {"a": "positive"}, contents=fits_of("a0", "b0")))
    with pytest.raises(
        DataError, match=r"(?s)1 of 2 images in task 'fits'.*set filter_images.ambiguity to a model"
    ):
        filtered(images, judge=Model({}, {}), ambiguity_judge=None)


def test_decisions_on_other_negatives_are_no_decisions(tmp_path) -> None:
    with pytest.raises(DataError, match="4 of 4 images in task 'choose'"):
        filtered(judged(tmp_path, decided("choose", {"x": "1"})))


def test_decisions_on_images_that_are_drawn_again_count_as_undecided_and_are_named(tmp_path) -> None:
    before = {"a": hash_judged(["p"], ["drawn before", sha256("a1")]), "b": CHOOSE["b"]}
    images = judged(tmp_path, decided("choose", {"a": "1", "b": "none"}, contents=before))
    with pytest.raises(
        DataError,
        match=r"(?s)2 of 4 images in task 'choose'.*1 of these negatives were judged with other.*- a\n",
    ):
        filtered(images)


@pytest.mark.parametrize(
    "content", [fits_of("a0")["a"], hash_judged(["another caption"], [sha256("a"), sha256("a1")])]
)
def test_a_verdict_holds_for_the_image_and_the_caption_that_people_saw(tmp_path, content) -> None:
    images = judged(
        tmp_path,
        decided("choose", {"a": "1", "b": "none"}, contents=CHOOSE),
        decided("fits", {"a": "positive"}, contents={"a": content}),
    )
    with pytest.raises(DataError, match=r"(?s)1 of 1 images in task 'fits'.*judged with other.*- a\n"):
        filtered(images)


@pytest.mark.parametrize("verdicts", [("both", "negative"), ("negative", "both")])
def test_a_positive_image_of_two_candidates_fits_if_people_said_so_of_one_of_them(tmp_path, verdicts) -> None:
    contents = {n: hash_judged(["caption"], [sha256("a0+"), sha256(f"{n}0")]) for n in NAMES}
    decisions = decided("fits", dict(zip(NAMES, verdicts, strict=True)), contents=contents)
    images = judged(tmp_path, decisions, positives=True)
    images = replace(
        images,
        candidates=images.candidates.assign(positive_image_id="a0+"),
        pairs=images.pairs.assign(caption="caption"),
    )
    judge = JUDGES["people"](**COMMON, judged=images)
    assert judge.score_match([b"a0+"], ["caption"]).tolist() == [1.0]


def test_people_cannot_judge_new_images_and_need_a_table_of_theirs(tmp_path) -> None:
    with pytest.raises(BackendError, match=r"synthesize\.grid"):
        JUDGES["people"](**COMMON)
    images = judged(tmp_path, decided("correct", {"a": "A."}))
    with pytest.raises(DataError, match="no decision of task 'choose' or 'fits'; its tasks: correct"):
        JUDGES["people"](**COMMON, judged=images)
