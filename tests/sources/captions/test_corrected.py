import numpy as np
import pandas as pd
import pytest
from annotated import decided

from caramel.annotation.content import hash_judged
from caramel.errors import DataError
from caramel.schemas.contracts import check_table
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions.corrected import NO_DRAFT, SKIPPED, read_corrected_paraphrases

ROWS = [{"pair_id": p, "image_id": p, "caption": f"{p}.", "split": "test", "source": "s"} for p in "pqr"]


def corrected(
    folder,
    skipped: dict[str, str] | None = None,
    changed: str = "",
    votes: dict[str, str] | None = None,
    **decisions: str | None,
):
    contents = {row["pair_id"]: hash_judged([row["caption"]]) for row in ROWS if row["pair_id"] != changed}
    rows = decided("correct", decisions, contents=contents)
    rows["skipped"] = rows["item_id"].map(skipped or {}).astype(object)
    rows["votes"] = rows["item_id"].map(votes or {}).fillna(rows["votes"])
    write_table(DECISIONS, rows, folder / "decisions.parquet")
    return read_corrected_paraphrases(build_frame(PAIRS, ROWS), annotations=str(folder), data_dir="unused")


def test_each_pair_gets_the_paraphrase_that_people_decided_on(tmp_path) -> None:
    written = corrected(tmp_path, q="Q2.", p="P2.", r="R2.", other="X.")
    check_table(PARAPHRASES, written.paraphrases, "paraphrases")
    check_table(NEGATIVES, written.negatives, "negatives")
    assert written.paraphrases[["pair_id", "caption2"]].to_numpy().tolist() == [
        ["p", "P2."],
        ["q", "Q2."],
        ["r", "R2."],
    ]
    assert set(written.paraphrases["generator"]) == {"people"}


def test_pairs_that_were_corrected_differently_or_for_another_caption_are_named_and_what_to_do(
    tmp_path,
) -> None:
    message = (
        r"(?s)paraphrases of 2 of 3 pairs.*1 were corrected for another caption.*'r'.*annotate make correct.*"
        r"1 were corrected differently:\s+- 'q'.*annotate make resolve"
    )
    with pytest.raises(DataError, match=message):
        corrected(tmp_path, p="P2.", q=None, r="R2.", changed="r", votes={"q": '{"Q2.": 1, "Q3.": 1}'})


def test_pairs_that_nobody_or_too_few_people_answered_are_named_and_no_rejects(tmp_path) -> None:
    message = (
        r"(?s)paraphrases of 2 of 3 pairs.*1 have no answer:\s+- 'q'.*annotate answers.*"
        r"1 have fewer answers than --min-answers.*- 'r'"
    )
    with pytest.raises(DataError, match=message) as error:
        corrected(tmp_path, p="P2.", q=None, r=None, votes={"q": "{}", "r": '{"R2.": 1}'})
    assert "resolve" not in str(error.value)


def test_pairs_that_people_skipped_or_did_not_get_are_rejects_with_the_reason(tmp_path) -> None:
    written = corrected(tmp_path, skipped={"q": "no sentence"}, p="P2.", q=None)
    check_table(REJECTS, written.rejects, "rejects")
    assert written.paraphrases["pair_id"].tolist() == ["p"]
    assert written.rejects[["id", "reason", "text"]].replace({np.nan: None}).to_numpy().tolist() == [
        ["q:paraphrase", SKIPPED, "no sentence"],
        ["r:paraphrase", NO_DRAFT, None],
    ]
    with pytest.raises(DataError, match="none of 3 pairs"):
        corrected(tmp_path, skipped={"q": "no sentence"}, q=None)


def test_without_any_decision_the_file_is_named(tmp_path) -> None:
    with pytest.raises(DataError, match=r"decisions.parquet' is missing.*annotate make correct"):
        read_corrected_paraphrases(pd.DataFrame(ROWS), annotations=str(tmp_path))
