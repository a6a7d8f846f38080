"""Stage ``crepe_index``: count the atoms and compounds of a training corpus."""

from pathlib import Path

from caramel.config.schema import Config
from caramel.crepe.build import build_graph_index
from caramel.crepe.set_runs import log_set_run
from caramel.runtime.stage_runner import run_stage

OUT = Path("data/crepe_index")


def crepe_index(config: Config) -> None:
    """Write data/crepe_index: the index, its vocabulary, and the counts of the corpus's parts."""
    path, words = build_graph_index(
        Path(config.crepe.corpus),
        Path(config.crepe.graphs),
        OUT,
        column=config.crepe.column,
        parser=config.crepe.parser,
        correct_spelling=config.crepe.correct_spelling,
    )
    settings = {
        "graphs": config.crepe.graphs,
        "corpus": config.crepe.corpus,
        "column": config.crepe.column,
        "parser": config.crepe.parser,
        "correct_spelling": config.crepe.correct_spelling,
    }
    log_set_run("crepe_index", settings, path, {"words": words})


if __name__ == "__main__":
    run_stage(crepe_index)
