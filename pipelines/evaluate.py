"""Stage ``evaluate``: every model on the benchmark, as a Ray Tune grid."""

from pathlib import Path
from typing import Any

from caramel.config.schema import Config
from caramel.evaluation.grid import evaluate_models, list_checkpoints
from caramel.evaluation.mlflow_logging import log_detectors, log_retained
from caramel.evaluation.position_probe import probe_positions
from caramel.evaluation.results.summary import nest_overall_metrics
from caramel.evaluation.synthetic_probe import evaluate_detectors
from caramel.io.files import write_csv, write_json
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.evaluation import ANSWERS, METRICS, SIMILARITIES
from caramel.schemas.io import write_table

OUT, WORK = Path("data/evaluate"), Path("work/evaluate")
ASSEMBLED, SCENES = Path("data/assemble"), Path("data/scenes")
PARQUET = {"similarities": SIMILARITIES, "answers": ANSWERS, "metrics": METRICS, "detectors": METRICS}
CSV = ("variants", "differences", "separability", "compounds", "retained", "bounds", "probes")


def evaluate(config: Config) -> None:
    """Score the base and every fine-tuned model; write similarities, metrics, comparisons, what was kept, detectors and probes."""
    tuned = [(variant, seed) for variant in config.finetune.variants for seed in config.finetune.seeds]
    section = config.evaluate
    how: dict[str, Any] = {
        "split": section.split,
        "device": config.run.device,
        "gpus": config.run.gpus.evaluate,
        "batch_size": section.batch_size,
        "folder": WORK,
    }
    tables = evaluate_models(
        tuned,
        **section.model_dump(exclude={*how}),
        **how,
        executor=config.run.executor,
        allow_unmentioned_objects=config.scenes.allow_unmentioned_objects,
        precision="fp32",  # figures do not depend on the processor
    )._asdict()
    folders, _ = list_checkpoints(tuned)
    tables["probes"] = probe_positions(folders, SCENES, executor=config.run.executor, **how)
    log_retained(tables["metrics"], tables["retained"])
    tables["detectors"] = evaluate_detectors(
        "data/base", ASSEMBLED, SCENES, n_bootstrap=section.n_bootstrap, seed=section.seed, **how
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
    run_stage(evaluate, images_needed={**outputs, **others})
