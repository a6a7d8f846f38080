"""Stage ``negatives``: hard negatives of all subtypes and one paraphrase per pair."""

from functools import partial
from pathlib import Path

import pandas as pd

from caramel import tables
from caramel.captions.asked.own_split import in_own_split
from caramel.captions.asked.run_of_replies import log_replies
from caramel.captions.failures import failures
from caramel.captions.noise import checks, judged, noise
from caramel.config import Config
from caramel.kinds.writer import Part, Written
from caramel.registry import WRITERS
from caramel.running.stages import run

FOLDER = "data/negatives"


def negatives(config: Config) -> None:
    """Write data/negatives/{negatives,paraphrases,rejects}.parquet; of language models replies and verdicts, too.

    Then failures.csv counts why texts failed and, where the scenes are known, noise.csv and checks.csv how often the model erred.
    """
    section = config.negatives
    pairs = tables.read(tables.PAIRS, "data/scenes/pairs.parquet")
    write = partial(
        _written,
        pairs,
        files=config.scenes.files,
        seed=section.seed,
        attempts=section.attempts,
        further_objects=config.scenes.further_objects,
        model=section.language_model.model_dump(),
    )
    if section.paraphrases in (None, section.backend):
        written = write(section.backend, parts=["negatives", "paraphrases"])
    else:
        first = write(section.backend, parts=["negatives"])
        written = _joined(first, write(section.paraphrases, parts=["paraphrases"]))
    passed = written if written.verdicts is None else in_own_split(written, pairs)
    tables.write(tables.NEGATIVES, passed.negatives, f"{FOLDER}/negatives.parquet")
    tables.write(tables.PARAPHRASES, passed.paraphrases, f"{FOLDER}/paraphrases.parquet")
    tables.write(tables.REJECTS, passed.rejects, f"{FOLDER}/rejects.parquet")
    if written.replies is not None and written.verdicts is not None:
        tables.write_parts(tables.REPLIES, written.replies, f"{FOLDER}/replies.parquet", by="reply_id")
        tables.write(tables.VERDICTS, written.verdicts, f"{FOLDER}/verdicts.parquet")
        failures(written.verdicts, passed.rejects).to_csv(f"{FOLDER}/failures.csv", index=False)
        log_replies(Path(f"{FOLDER}/replies.parquet"))
        _write_noise(pairs, written, written.verdicts, config.scenes.further_objects)


def _write_noise(
    pairs: pd.DataFrame, written: Written, verdicts: pd.DataFrame, further_objects: bool
) -> None:
    """Write how often the language model erred, {noise,checks}.csv, of pairs whose scene is known."""
    if pairs["scene"].isna().all():
        return
    rows = judged(pairs, verdicts, further_objects=further_objects)
    kept = [*written.negatives["negative_id"], *(written.paraphrases["pair_id"] + ":paraphrase")]
    prompts = tables.read(tables.REPLIES, f"{FOLDER}/replies.parquet", ["prompt"])["prompt"]
    table = noise(rows, kept, written.rejects["id"].tolist(), prompts)
    table.to_csv(f"{FOLDER}/noise.csv", index=False)
    checks(rows).to_csv(f"{FOLDER}/checks.csv", index=False)


def _written(pairs: pd.DataFrame, backend: str, *, parts: list[Part], **settings: object) -> Written:
    return WRITERS[backend](pairs, parts=parts, **settings)  # type: ignore[arg-type]


def _joined(first: Written, second: Written) -> Written:
    """Return the negatives of the first writer, the paraphrases of the second, and what belongs to each."""
    of_second = first.rejects["id"].str.endswith(":paraphrase")
    rejects = [first.rejects[~of_second], second.rejects[second.rejects["id"].str.endswith(":paraphrase")]]
    asked = first if first.replies is not None else second
    return first._replace(
        paraphrases=second.paraphrases,
        rejects=pd.concat(rejects, ignore_index=True),
        replies=asked.replies,
        verdicts=asked.verdicts,
    )


if __name__ == "__main__":
    run(negatives)
