import pandas as pd
import pytest
from annotated import decided

from caramel.errors import DataError
from caramel.schemas.contracts import check_table
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.sources.captions.corrected import read_corrected_paraphrases

ROWS = [{"pair_id": p, "image_id": p, "caption": f"{p}.", "split": "test", "source": "s"} for p in "pqr"]


def corrected(folder, **decisions: str | None):
    write_table(DECISIONS, decided("correct", decisions), folder / "decisions.parquet")
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


def test_pairs_without_a_decision_are_named_and_what_to_do(tmp_path) -> None:
    message = (
        r"(?s)paraphrases of 2 of 3 pairs:.*'q'.*'r'.*1 were not corrected.*annotate make correct.*"
        r"1 were corrected differently.*annotate make resolve"
    )
    with pytest.raises(DataError, match=message):
        corrected(tmp_path, p="P2.", q=None)


def test_without_any_decision_the_file_is_named(tmp_path) -> None:
    with pytest.raises(DataError, match=r"decisions.parquet' is missing.*annotate make correct"):
        read_corrected_paraphrases(pd.DataFrame(ROWS), annotations=str(tmp_path))
