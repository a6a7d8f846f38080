"""Stage ``crepe_productivity``: captions of 4 to 12 atoms with hard negatives."""

from pathlib import Path

from caramel.config.schema import Config
from caramel.crepe.build import (
    SetSettings,
    check_entailment,
    load_caption_writer,
    load_entailment_scorer,
    write_productivity_set,
)
from caramel.crepe.set_runs import log_set_run
from caramel.runtime.stage_runner import run_stage
from caramel.sources.captions.llm.writer import STORE

OUT, RAW = Path("data/crepe_productivity"), Path("data/crepe_retrieval/productivity")


def crepe_productivity(config: Config) -> None:
    """Write the files of the set, its pairs for plain retrieval in RAW, and rejects.csv."""
    check_entailment(config.crepe.writer, config.crepe.entailment)
    settings = SetSettings(
        graphs=Path(config.crepe.graphs),
        out=OUT,
        raw=RAW,
        words=config.crepe.words,
        sensible=Path(config.crepe.sensible) if config.crepe.sensible else None,
        min_area=config.crepe.min_area,
        seed=config.crepe.seed,
    )
    counts = write_productivity_set(
        settings,
        per_complexity=config.crepe.per_complexity,
        walks=config.crepe.walks,
        write_captions=load_caption_writer(
            config.crepe.writer,
            STORE,
            seed=config.crepe.seed,
            max_connections=config.crepe.max_connections,
            max_requests=config.crepe.max_requests,
        ),
        entailed=load_entailment_scorer(config.crepe.entailment),
    )
    logged = {**vars(settings), "writer": config.crepe.writer, "entailment": config.crepe.entailment}
    log_set_run("crepe_productivity", logged, OUT, counts.examples, counts.rejects)


if __name__ == "__main__":
    run_stage(crepe_productivity)
