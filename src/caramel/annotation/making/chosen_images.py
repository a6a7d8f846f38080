"""List the drawn image that was chosen for each negative: by the stage `filter_images`, or by people."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from caramel.annotation.agreement.decision_files import find_outdated
from caramel.annotation.content import hash_candidates
from caramel.errors import DataError, format_items
from caramel.io.validators import format_value
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES

COLUMNS = ["negative_id", "pair_id", "image_id", "positive_image_id"]


def list_chosen_images(data: Path, decisions: Path | None) -> pd.DataFrame:
    """Return negative_id, pair_id, image_id and positive_image_id of each negative with a chosen image.

    Args:
        data: folder of the stages' outputs.
        decisions: table `decisions`, of which task `choose` counts. None takes the choices of `filter_images`.

    Raises:
        DataError: no image was chosen, or decisions are on other candidates than the current ones.
    """
    if decisions is None:
        where = data / "filter_images/choices.parquet"
        rows = read_table(CHOICES, where)
        chosen = rows[rows["chosen_by"].notna()]
    else:
        where = decisions
        chosen = _select_decided(read_table(DECISIONS, decisions), data, str(decisions))
    if chosen.empty:
        raise DataError(f"No image was chosen in {str(where)!r}.")
    negatives = read_table(NEGATIVES, data / "refine/negatives.parquet").set_index("negative_id")
    chosen = chosen[chosen["negative_id"].isin(negatives.index)]
    return chosen.assign(pair_id=chosen["negative_id"].map(negatives["pair_id"]))[COLUMNS]


def _select_decided(decisions: pd.DataFrame, data: Path, where: str) -> pd.DataFrame:
    """Return the candidates that people decided on."""
    rows = decisions[decisions["task"] == "choose"]
    candidates = read_table(CANDIDATES, data / "synthesize/candidates.parquet")
    images = read_table(IMAGES, data / "synthesize/images.parquet")
    outdated = find_outdated(rows, hash_candidates(candidates, images))
    wanted = rows[rows["decision"].notna() & (rows["decision"] != "none")].set_index("item_id")["decision"]
    chosen = candidates[candidates["negative_id"].map(wanted) == candidates["candidate"].astype(str)]
    unknown = set(wanted.index) - set(chosen["negative_id"])
    if foreign := sorted({*unknown, *outdated}):
        raise DataError(
            f"{where!r} has decisions of task 'choose' on {len(foreign)} items whose images or captions are not the current "
            f"ones in {str(data / 'synthesize')!r}:\n{format_items([format_value(name) for name in foreign])}\nWere the "
            "candidates drawn again since? Have the items judged again: `caramel annotate make choose`."
        )
    return chosen
