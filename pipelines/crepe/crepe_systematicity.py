"""Stage ``crepe_systematicity``: regions of one compound with hard negatives, and the pairs for plain retrieval."""

from pathlib import Path

from caramel.config.schema import Config
from caramel.crepe.build import SetSettings, write_systematicity_set
from caramel.crepe.set_runs import log_set_run
from caramel.runtime.stage_runner import run_stage

INDEX, OUT = Path("data/crepe_index"), Path("data/crepe_systematicity")
RAW = Path("data/crepe_retrieval/systematicity")


def crepe_systematicity(config: Config) -> None:
    """Write the files of the set, its pairs for plain retrieval in RAW, and rejects.csv."""
    settings = SetSettings(
        graphs=Path(config.crepe.graphs),
        out=OUT,
        raw=RAW,
        words=config.crepe.words,
        sensible=Path(config.crepe.sensible) if config.crepe.sensible else None,
        min_area=config.crepe.min_area,
        seed=config.crepe.seed,
    )
    counts = write_systematicity_set(
        settings, index=INDEX, name=config.crepe.corpus_name, correct_spelling=config.crepe.correct_spelling
    )
    logged = {
        **vars(settings),
        "name": config.crepe.corpus_name,
        "correct_spelling": config.crepe.correct_spelling,
    }
    log_set_run("crepe_systematicity", logged, OUT, counts.examples, counts.rejects)


if __name__ == "__main__":
    run_stage(crepe_systematicity)
