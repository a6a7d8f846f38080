"""Stage ``crepe_models``: score models on CREPE's sets, check the recalls, and draw the paper's figures."""

from dataclasses import replace
from pathlib import Path

from caramel.config.schema import Config
from caramel.crepe.results.recalls import PRODUCTIVITY, RETRIEVAL, SYSTEMATICITY
from caramel.crepe.results.write import write_crepe_figures
from caramel.crepe.systematicity import get_frequency_path
from caramel.evaluation.benchmark_source import locate_benchmark
from caramel.evaluation.evaluate import run_evaluation
from caramel.evaluation.external.run_files import write_run
from caramel.gates.suite_summaries import write_summaries
from caramel.gates.suites import validate_table
from caramel.interfaces.settings import Compute, Execution
from caramel.io.files import write_json
from caramel.runtime.stage_runner import run_stage, skip_stage
from caramel.utils.resampling import Bootstrap

DATA, OUT, WORK = Path("data"), Path("data/crepe_models"), Path("work/crepe_models")
SETS = (SYSTEMATICITY, PRODUCTIVITY, RETRIEVAL)


def crepe_models(config: Config) -> None:
    """Write to data/crepe_models what `caramel eval` writes, the figures and tables, and the gate's summary.

    Each model on each set is a run in MLflow. Without models, only a note is written.
    """
    if not config.crepe.models:
        skip_stage({str(OUT): None}, "crepe.models names no model")
        return
    located = [locate_benchmark(name, DATA, Path(config.crepe.images)) for name in SETS]
    evaluation = run_evaluation(
        config.crepe.models,
        [replace(source, dvc=(source.data,)) for source in located],
        compute=Compute(config.run.device, "fp32"),  # so that results do not depend on the processor
        batch_size=config.evaluate.batch_size,
        bootstrap=Bootstrap(config.evaluate.n_bootstrap, config.crepe.seed),
        execution=Execution(config.run.executor, WORK, config.run.gpus.evaluate),
        store=WORK / "embeddings",
    )
    OUT.mkdir(parents=True, exist_ok=True)
    write_run(OUT, *evaluation)
    summary = validate_table(
        evaluation.metrics, Path("expectations/crepe_recalls.json"), docs_folder="work/data_docs"
    )
    write_summaries([summary], OUT / "summary.json")
    frequencies = get_frequency_path(DATA / SYSTEMATICITY, config.crepe.corpus_name)
    _, missing = write_crepe_figures(OUT, OUT / "figures", frequencies=[frequencies])
    write_json(OUT / "not_made.json", missing)


if __name__ == "__main__":
    run_stage(crepe_models)
