"""Score a model on the cases of a metamorphic audit, and say how often it does what it must.

Each relation holds whatever the right answers are, so no labels are needed:

- ``false_detail_lowers``: a false detail lowers the score of the caption.
- ``true_detail_keeps``: of the captions that beat the one with a false detail, the share that still does after a true
  detail is appended. Both texts are then about equally long, so a model that only dislikes long texts fails here.
- ``true_detail_wins``: the caption with the true detail beats the one with the false detail. This is no relation of one
  text to its own longer form: it tells whether the model sees the detail at all.
- ``paraphrase_agrees``: the paraphrase and the caption give the same verdict on the false detail.

A tie counts as a failure; in the last one, two ties agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.metrics import Outcomes
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import ConfigError
from caramel.evaluation.metamorphic.cases import Case
from caramel.evaluation.results.summary import compute_metrics
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.scores.scoring import compute_similarities
from caramel.interfaces.benchmark import Comparisons, ImageFile
from caramel.models.specs import get_family
from caramel.utils.resampling import Bootstrap

NAME = "metamorphic"
RELATIONS = ("false_detail_lowers", "true_detail_keeps", "true_detail_wins", "paraphrase_agrees")
SCORES = ("score", "score_true", "score_false", "score_paraphrase", "score_paraphrase_false")
_PARAPHRASED = "-paraphrase"  # ends the names of the paraphrases' instances


def check_model(model: str) -> None:
    """Raise ConfigError if a model gives no score for an image and a text."""
    if get_family(model).form in ("chooser", "text", "joint"):
        raise ConfigError(
            f"Model {model!r} gives no score for an image and a text: it answers in words, or compares captions. Give a "
            f"model with scores, such as open_clip:NAME:TAG."
        )


def score_cases(cases: Sequence[Case], images: Path, run: RunConfig) -> pd.DataFrame:
    """Return the cases with the model's name and its scores, ``SCORES``; without a paraphrase, its scores are NaN.

    Args:
        cases: at least one.
        images: folder of the images.
        run: model and settings of its forward passes.

    Raises:
        DataError: an image is missing or broken.
        BackendError: the model cannot be loaded.
    """
    task = _build_task(cases, images)
    similarities = compute_similarities(task, check_images(task.images, NAME), run, benchmark=NAME)
    by_name = similarities.set_index("instance_id")
    names = [str(number) for number in range(len(cases))]
    caption = by_name.loc[names]
    paraphrase = by_name.reindex([name + _PARAPHRASED for name in names])
    columns = (
        *(caption[column] for column in ("s_c0_i0", "s_c2_i0", "s_c1_i0")),
        *(paraphrase[column] for column in ("s_c0_i0", "s_c1_i0")),
    )
    scores = {name: column.to_numpy(float) for name, column in zip(SCORES, columns, strict=True)}
    model = str(similarities["model"].iloc[0])
    return pd.DataFrame(cases, columns=list(Case._fields)).assign(**scores, model=model)


def compute_rates(scored: pd.DataFrame, bootstrap: Bootstrap) -> pd.DataFrame:
    """Return the share of cases for which each relation holds, by model and type of detail.

    The columns are those of table ``metrics``: ``subset`` is ``all`` or the type, ``metric`` the relation. The intervals
    resample whole images. A case that a relation says nothing about is ``unscored``.

    Args:
        scored: cases of all models, from ``score_cases``.
        bootstrap: settings of the intervals.
    """
    parts = []
    for model, rows in scored.groupby("model", sort=False):
        described = pd.DataFrame(
            {"image_id": rows["image"], "subsets": [[name] for name in rows["detail_type"]]}
        ).reset_index(drop=True)
        rates = compute_metrics(described, _compute_outcomes(rows), lambda subset: False, bootstrap)
        parts.append(rates.assign(model=str(model), benchmark=NAME))
    rates = pd.concat(parts, ignore_index=True)
    if rates["subset"].nunique() == 2:  # all and the only type
        rates = rates[rates["subset"] == "all"].reset_index(drop=True)
    return rates


def _compute_outcomes(rows: pd.DataFrame) -> Outcomes:
    plain, true, false, paraphrase, paraphrase_false = (rows[name].to_numpy(float) for name in SCORES)
    lowers = plain > false
    verdicts = np.sign(plain - false), np.sign(paraphrase - paraphrase_false)
    agrees = (verdicts[0] == verdicts[1]).astype(float)
    hits = pd.DataFrame(
        {
            RELATIONS[0]: np.where(np.isnan(plain - false), np.nan, lowers),
            RELATIONS[1]: np.where(lowers & ~np.isnan(true), true > false, np.nan),
            RELATIONS[2]: np.where(np.isnan(true - false), np.nan, true > false),
            RELATIONS[3]: np.where(np.isnan(verdicts[0] + verdicts[1]), np.nan, agrees),
        }
    )
    ties = pd.DataFrame(False, index=hits.index, columns=hits.columns)
    ties[RELATIONS[0]] = plain == false
    ties[RELATIONS[1]] = lowers & (true == false)
    ties[RELATIONS[2]] = true == false
    return Outcomes(hits, ties)


def _build_task(cases: Sequence[Case], images: Path) -> Comparisons:
    """Return two instances per case: the caption, and its paraphrase if it has one."""
    names = list(dict.fromkeys(case.image for case in cases))
    positions = {name: number for number, name in enumerate(names)}
    rows: list[dict[str, object]] = []
    for number, case in enumerate(cases):
        common = {"image_id": case.image, "subsets": [case.detail_type], "image": positions[case.image]}
        texts = {"caption": case.caption, "negative_caption": case.with_false, "caption2": case.with_true}
        rows.append({"instance_id": str(number), **common, **texts})
        if case.paraphrase is not None:
            texts = {"caption": case.paraphrase, "negative_caption": str(case.paraphrase_with_false)}
            rows.append({"instance_id": f"{number}{_PARAPHRASED}", **common, **texts})
    return build_comparisons(rows, [ImageFile(str(images / name)) for name in names])
