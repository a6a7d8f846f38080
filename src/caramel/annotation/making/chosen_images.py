"""List the drawn image that was chosen for each negative: by the stage `filter_images`, or by people."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from caramel.errors import DataError
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES


def list_chosen_images(data: Path, answers: Path | None) -> pd.DataFrame:
    """Return negative_id, pair_id, image_id and positive_image_id of each negative with a chosen image.

    Args:
        data: folder of the stages' outputs.
        answers: table `annotations` of task `choose`; the answer of most annotators counts, and ties are left out. None
            takes the choices of `filter_images`.

    Raises:
        DataError: no image was chosen, or the answers are to another task.
    """
    if answers is None:
        rows = read_table(CHOICES, data / "filter_images/choices.parquet")
        chosen = rows[rows["chosen_by"].notna()]
    else:
        votes = select_majority(read_table(ANNOTATIONS, answers), str(answers))
        rows = read_table(CANDIDATES, data / "synthesize/candidates.parquet")
        chosen = rows[rows["negative_id"].map(votes) == rows["candidate"].astype(str)]
    if chosen.empty:
        raise DataError(f"No image was chosen in {str(answers or data / 'filter_images/choices.parquet')!r}.")
    negatives = read_table(NEGATIVES, data / "refine/negatives.parquet").set_index("negative_id")
    chosen = chosen[chosen["negative_id"].isin(negatives.index)]
    columns = ["negative_id", "pair_id", "image_id", "positive_image_id"]
    return chosen.assign(pair_id=chosen["negative_id"].map(negatives["pair_id"]))[columns]


def select_majority(answers: pd.DataFrame, where: str) -> dict[str, str]:
    """Return the most frequent answer by negative, without ties."""
    if other := sorted(set(answers["task"]) - {"choose"}):
        raise DataError(f"{where!r} holds answers to task {other[0]!r}; those to `choose` are needed.")
    given = answers[answers["answer"].notna()]
    modes = given.groupby("item_id")["answer"].agg(lambda values: values.mode().tolist())
    return {str(name): votes[0] for name, votes in modes.items() if len(votes) == 1}
