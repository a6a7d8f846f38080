"""Stage ``evaluate``: score every model on the benchmark, as a Ray Tune grid."""

from pathlib import Path
from typing import Any

from caramel.config.schema import Config
from caramel.evaluation.encoder_probes import probe_encoders
from caramel.evaluation.grid import BenchmarkSelection, compare_models, score_models
from caramel.evaluation.mlflow_logging import log_detectors, log_retained, log_variants
from caramel.evaluation.results.summary import nest_overall_metrics
from caramel.interfaces.settings import Compute, Execution
from caramel.io.files import write_csv, write_json
from caramel.runtime.second_process import run_beside
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
    settings: dict[str, Any] = {
        "compute": Compute(device, "fp32"),  # so that results do not depend on the processor
        "batch_size": section.batch_size,
        "bootstrap": bootstrap,
        "execution": execution,
    }
    scored = score_models(
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
        **settings,
    )
    probing = run_beside(
        probe_encoders,
        scored.folders,
        ASSEMBLED,
        SCENES,
        split=section.split,
        device=device,
        batch_size=section.batch_size,
        bootstrap=bootstrap,
        execution=execution,
    )
    with probing as wait_for_probes:
        tables = compare_models(
            scored, allow_unmentioned_objects=config.scenes.allow_unmentioned_objects, **settings
        )._asdict()
        tables |= wait_for_probes()
    log_variants(scored.variant_runs, tables["variants"])
    log_retained(tables["metrics"], tables["retained"])
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
