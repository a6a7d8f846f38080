"""Stage ``evaluate``: score every model on the benchmark, as a Ray Tune grid."""

from pathlib import Path

from caramel.config.schema import Config
from caramel.evaluation.grid import BenchmarkSelection, evaluate_models, list_checkpoints
from caramel.evaluation.mlflow_logging import log_detectors, log_retained
from caramel.evaluation.position_probe import probe_positions
from caramel.evaluation.results.summary import nest_overall_metrics
from caramel.evaluation.synthetic_probe import evaluate_detectors
from caramel.interfaces.settings import Compute, Execution
from caramel.io.files import write_csv, write_json
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.evaluation import ANSWERS, METRICS, SIMILARITIES
from caramel.schemas.io import write_table
from caramel.utils.resampling import Bootstrap

OUT, WORK = Path("data/evaluate"), Path("work/evaluate")
ASSEMBLED, SCENES = Path("data/assemble"), Path("data/scenes")
PARQUET = {"similarities": SIMILARITIES, "answers": ANSWERS, "metrics": METRICS, "detectors": METRICS}
CSV = ("variants", "differences", "separability", "compounds", "retained", "bounds", "probes")


def evaluate(config: Config) -> None:
    """Score the base and every fine-tuned model, and write the tables of results.

    These are similarities, metrics, comparisons, retained abilities, detectors and probes.
    """
    tuned = [(variant, seed) for variant in config.finetune.variants for seed in config.finetune.seeds]
    section, device = config.evaluate, config.run.device
    bootstrap = Bootstrap(section.n_bootstrap, section.seed)
    execution = Execution(config.run.executor, WORK, config.run.gpus.evaluate)
    tables = evaluate_models(
        tuned,
        models=section.models,
        benchmarks=BenchmarkSelection(
            split=section.split,
            names=section.benchmarks,
            data=section.data,
            images=section.images,
            retrieval_images=section.retrieval_images,
            zero_shot=section.zero_shot,
            seed=section.seed,
        ),
        allow_unmentioned_objects=config.scenes.allow_unmentioned_objects,
        compute=Compute(device, "fp32"),  # so that results do not depend on the processor
        batch_size=section.batch_size,
        bootstrap=bootstrap,
        execution=execution,
    )._asdict()
    folders, _ = list_checkpoints(tuned)
    tables["probes"] = probe_positions(
        folders,
        SCENES,
        split=section.split,
        device=device,
        batch_size=section.batch_size,
        execution=execution,
    )
    log_retained(tables["metrics"], tables["retained"])
    tables["detectors"] = evaluate_detectors(
        "data/base",
        ASSEMBLED,
        SCENES,
        split=section.split,
        device=device,
        batch_size=section.batch_size,
        bootstrap=bootstrap,
        folder=WORK,
        gpus=execution.gpus,
    )
    log_detectors(tables["detectors"])
    for name, contract in PARQUET.items():
        write_table(contract, tables[name], OUT / f"{name}.parquet")
    for name in CSV:
        write_csv(OUT / f"{name}.csv", tables[name])
    write_json(OUT / "metrics.json", nest_overall_metrics(tables["metrics"]))


if __name__ == "__main__":
    outputs = {f"{OUT}/{name}.parquet": contract for name, contract in PARQUET.items()}
    others = dict.fromkeys((f"{OUT}/metrics.json", *(f"{OUT}/{name}.csv" for name in CSV)))
    run_stage(evaluate, images_needed={**outputs, **others}, trains=True)
