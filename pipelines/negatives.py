"""Stage ``negatives``: hard negatives of all subtypes and one paraphrase per pair."""

from caramel import tables
from caramel.config import Config
from caramel.registry import WRITERS
from caramel.running.stages import run


def negatives(config: Config) -> None:
    """Write data/negatives/{negatives,paraphrases,rejects}.parquet."""
    section = config.negatives
    pairs = tables.read(tables.PAIRS, "data/scenes/pairs.parquet")
    write = WRITERS[section.backend]
    written = write(
        pairs,
        files=config.scenes.files,
        seed=section.seed,
        attempts=section.attempts,
        further_objects=config.scenes.further_objects,
    )
    tables.write(tables.NEGATIVES, written.negatives, "data/negatives/negatives.parquet")
    tables.write(tables.PARAPHRASES, written.paraphrases, "data/negatives/paraphrases.parquet")
    tables.write(tables.REJECTS, written.rejects, "data/negatives/rejects.parquet")


if __name__ == "__main__":
    run(negatives)
