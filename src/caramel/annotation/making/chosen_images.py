"""List the drawn image that was chosen for each negative: by the stage `filter_images`, or by people."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from caramel.errors import DataError
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES

COLUMNS = ["negative_id", "pair_id", "image_id", "positive_image_id"]


def list_chosen_images(data: Path, decisions: Path | None) -> pd.DataFrame:
    """Return negative_id, pair_id, image_id and positive_image_id of each negative with a chosen image.

    Args:
        data: folder of the stages' outputs.
        decisions: table `decisions`, of which task `choose` counts. None takes the choices of `filter_images`.

    Raises:
        DataError: no image was chosen, or a decision names an unknown candidate.
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
    rows = decisions[(decisions["task"] == "choose") & decisions["decision"].notna()]
    wanted = rows[rows["decision"] != "none"].set_index("item_id")["decision"]
    candidates = read_table(CANDIDATES, data / "synthesize/candidates.parquet")
    chosen = candidates[candidates["negative_id"].map(wanted) == candidates["candidate"].astype(str)]
    if unknown := sorted(set(wanted.index) - set(chosen["negative_id"])):
        raise DataError(
            f"{where!r} has decisions on {len(unknown)} images that are not among the candidates, such as candidate "
            f"{wanted[unknown[0]]} of {unknown[0]!r}. Were the candidates drawn again since?"
        )
    return chosen
