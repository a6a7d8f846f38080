"""Stage ``negatives``: write hard negatives of all subtypes, and one paraphrase per pair."""

from pathlib import Path

from caramel.config.schema import Config
from caramel.io.files import write_csv
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.io import read_table, write_table, write_table_parts
from caramel.schemas.llm import REPLIES, VERDICTS
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions.error_rates import build_error_tables
from caramel.sources.captions.failures import count_failures
from caramel.sources.captions.llm.response_run import log_replies
from caramel.sources.captions.llm.validator_quality import compute_quality
from caramel.sources.captions.writing import write_captions

OUT = Path("data/negatives")


def negatives(config: Config) -> None:
    """Write data/negatives/{negatives,paraphrases,rejects}.parquet.

    A language model also gives replies and verdicts. Then failures.csv counts why texts failed, corrections.csv what
    corrections of paraphrases gave, gold_items.csv has the validator's answers to texts with known answers, and
    validator.csv its sensitivity and specificity. If the scenes are known, noise.csv and checks.csv give the error rates of the model.
    """
    section, allow_unmentioned_objects = config.negatives, config.scenes.allow_unmentioned_objects
    pairs = read_table(PAIRS, "data/scenes/pairs.parquet")
    tables, llm_output = write_captions(
        pairs,
        negatives=section.backend,
        paraphrases=section.paraphrases or section.backend,
        data_dir=config.scenes.data_dir,
        seed=section.seed,
        max_attempts=section.max_attempts,
        spacy_model=section.spacy_model,
        allow_unmentioned_objects=allow_unmentioned_objects,
        model=section.language_model.model_dump() | {"spacy_model": section.spacy_model},
        annotations=config.annotation.paraphrases_dir,
    )
    write_table(NEGATIVES, tables.negatives, OUT / "negatives.parquet")
    write_table(PARAPHRASES, tables.paraphrases, OUT / "paraphrases.parquet")
    write_table(REJECTS, tables.rejects, OUT / "rejects.parquet")
    if llm_output is not None and llm_output.replies is not None and llm_output.verdicts is not None:
        write_table_parts(REPLIES, llm_output.replies, OUT / "replies.parquet", by="reply_id")
        write_table(VERDICTS, llm_output.verdicts, OUT / "verdicts.parquet")
        write_csv(OUT / "failures.csv", count_failures(llm_output.verdicts, llm_output.rejects))
        if llm_output.corrections is not None and len(llm_output.corrections):
            write_csv(OUT / "corrections.csv", llm_output.corrections)
        if llm_output.gold_items is not None and len(llm_output.gold_items):
            write_csv(OUT / "gold_items.csv", llm_output.gold_items)
            write_csv(OUT / "validator.csv", compute_quality(llm_output.gold_items))
        log_replies(OUT / "replies.parquet")
        prompts = read_table(REPLIES, OUT / "replies.parquet", ["prompt"])["prompt"]
        for name, table in build_error_tables(pairs, llm_output, prompts, allow_unmentioned_objects).items():
            write_csv(OUT / f"{name}.csv", table)


if __name__ == "__main__":
    run_stage(negatives)
