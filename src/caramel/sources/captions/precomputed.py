"""Read hard negatives and paraphrases that the source files already contain: SugarCrepe and SugarCrepe++."""

from __future__ import annotations

import pandas as pd

from caramel.errors import DataError, format_items
from caramel.interfaces.writer import WrittenCaption
from caramel.io.validators import format_value
from caramel.schemas.io import build_frame
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS
from caramel.sources.sugarcrepe_files import read_captions

NAME = "given"
NO_PARAPHRASE = "no paraphrase in the source"


def given_negatives(
    pairs: pd.DataFrame, *, data_dir: str, seed: int, max_attempts: int, **unused: object
) -> WrittenCaption:
    """Return the one hard negative of each pair, and its paraphrase if the files have one.

    Args:
        pairs: table ``pairs``, read from the same files.
        data_dir: folder of SugarCrepe(++) JSON.
        seed: recorded in the table; nothing is random.
        max_attempts: unused; each negative counts as the first attempt.
        unused: arguments of other backends.

    Raises:
        DataError: the files are invalid, or the pairs do not come from them.
    """
    given = pairs[["pair_id", "caption"]].merge(
        read_captions(data_dir), "left", "pair_id", suffixes=("", "_read")
    )
    assert len(given) == len(pairs)
    foreign = given.loc[given["caption"] != given["caption_read"], "pair_id"]
    if len(foreign):
        raise DataError(
            f"{len(foreign)} of {len(pairs)} pairs are not in {data_dir!r}, or have another caption there:\n"
            f"{format_items([format_value(name) for name in foreign])}\n"
            f"Run the stage `scenes` again, or set negatives.backend to 'lexicon' in params.yaml."
        )
    negatives = given.assign(
        negative_id=given["pair_id"] + ":" + given["subtype"],
        type=[subtype.partition("_")[0] for subtype in given["subtype"]],
        generator=NAME,
        seed=seed,
        attempt=1,
        compounds=None,
    )
    has = given["caption2"].notna()
    paraphrases = given.loc[has].assign(generator=NAME, attempts=1).reset_index(drop=True)
    missing = given.loc[~has]
    rejects = pd.DataFrame(
        {"id": missing["pair_id"] + ":paraphrase", "stage": "negatives", "reason": NO_PARAPHRASE}
    ).assign(text=missing["caption"])
    assert len(paraphrases) + len(rejects) == len(pairs)
    return WrittenCaption(
        build_frame(NEGATIVES, negatives),
        build_frame(PARAPHRASES, paraphrases),
        build_frame(REJECTS, rejects.reset_index(drop=True)),
    )
