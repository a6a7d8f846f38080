"""Stage ``negatives``: hard negatives of all subtypes and one paraphrase per pair."""

from functools import partial
from pathlib import Path

import pandas as pd

from caramel.config.schema import Config
from caramel.interfaces.writer import Part, WrittenCaption
from caramel.io.files import write_csv
from caramel.registry import WRITERS
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.io import read_table, write_table, write_table_parts
from caramel.schemas.llm import REPLIES, VERDICTS
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions.error_rates import compute_error_rates, evaluate_checks, label_drafts
from caramel.sources.captions.failures import count_failures
from caramel.sources.captions.llm.response_run import log_replies
from caramel.sources.captions.llm.split_filter import filter_by_split

FOLDER = "data/negatives"


def negatives(config: Config) -> None:
    """Write data/negatives/{negatives,paraphrases,rejects}.parquet; of language models replies and verdicts, too.

    Then failures.csv counts why texts failed and, where the scenes are known, noise.csv and checks.csv how often the model erred.
    """
    section = config.negatives
    pairs = read_table(PAIRS, "data/scenes/pairs.parquet")
    write = partial(
        _write_captions,
        pairs,
        data_dir=config.scenes.data_dir,
        seed=section.seed,
        max_attempts=section.max_attempts,
        allow_unmentioned_objects=config.scenes.allow_unmentioned_objects,
        model=section.language_model.model_dump(),
    )
    parts: dict[str, list[Part]] = {section.backend: ["negatives"]}
    parts.setdefault(section.paraphrases or section.backend, []).append("paraphrases")
    outputs = [write(backend, parts=of) for backend, of in parts.items()]
    written = outputs[0] if len(outputs) == 1 else _merge_outputs(*outputs)
    llm_output = next((of for of in outputs if of.verdicts is not None), None)
    passed = written if llm_output is None else filter_by_split(written, pairs)
    write_table(NEGATIVES, passed.negatives, f"{FOLDER}/negatives.parquet")
    write_table(PARAPHRASES, passed.paraphrases, f"{FOLDER}/paraphrases.parquet")
    write_table(REJECTS, passed.rejects, f"{FOLDER}/rejects.parquet")
    if llm_output is not None and llm_output.replies is not None and llm_output.verdicts is not None:
        write_table_parts(REPLIES, llm_output.replies, f"{FOLDER}/replies.parquet", by="reply_id")
        write_table(VERDICTS, llm_output.verdicts, f"{FOLDER}/verdicts.parquet")
        write_csv(Path(FOLDER, "failures.csv"), count_failures(llm_output.verdicts, llm_output.rejects))
        log_replies(Path(f"{FOLDER}/replies.parquet"))
        _write_noise(pairs, llm_output, llm_output.verdicts, config.scenes.allow_unmentioned_objects)


def _write_noise(
    pairs: pd.DataFrame, llm_output: WrittenCaption, verdicts: pd.DataFrame, allow_unmentioned_objects: bool
) -> None:
    """Write how often the language model erred, {noise,checks}.csv, of pairs whose scene is known."""
    if pairs["scene"].isna().all():
        return
    rows = label_drafts(pairs, verdicts, allow_unmentioned_objects=allow_unmentioned_objects)
    accepted_ids = [
        *llm_output.negatives["negative_id"],
        *(llm_output.paraphrases["pair_id"] + ":paraphrase"),
    ]
    prompts = read_table(REPLIES, f"{FOLDER}/replies.parquet", ["prompt"])["prompt"]
    table = compute_error_rates(rows, accepted_ids, llm_output.rejects["id"].tolist(), prompts)
    write_csv(Path(FOLDER, "noise.csv"), table)
    write_csv(Path(FOLDER, "checks.csv"), evaluate_checks(rows))


def _write_captions(
    pairs: pd.DataFrame, backend: str, *, parts: list[Part], **settings: object
) -> WrittenCaption:
    return WRITERS[backend](pairs, parts=parts, **settings)  # type: ignore[arg-type]


def _merge_outputs(first: WrittenCaption, second: WrittenCaption) -> WrittenCaption:
    """Return the negatives of the first writer and the paraphrases of the second, with the rejects of each."""
    of_second = first.rejects["id"].str.endswith(":paraphrase")
    rejects = [first.rejects[~of_second], second.rejects[second.rejects["id"].str.endswith(":paraphrase")]]
    return WrittenCaption(first.negatives, second.paraphrases, pd.concat(rejects, ignore_index=True))


if __name__ == "__main__":
    run_stage(negatives)
