"""Stage ``evaluate``: every model on the benchmark, as a Ray Tune grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from caramel.config.schema import Config
from caramel.evaluation.grid import evaluate_models, list_checkpoints
from caramel.evaluation.mlflow_logging import log_detectors, log_retained
from caramel.evaluation.position_probe import probe_positions
from caramel.evaluation.results.summary import select_overall_metrics
from caramel.evaluation.synthetic_probe import evaluate_detectors
from caramel.io.files import write_csv, write_json
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.evaluation import ANSWERS, METRICS, SIMILARITIES
from caramel.schemas.io import write_table

OUT, WORK = Path("data/evaluate"), Path("work/evaluate")
ASSEMBLED, SCENES = Path("data/assemble"), Path("data/scenes")


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
    results = evaluate_models(
        tuned,
        **section.model_dump(exclude={*how}),
        **how,
        executor=config.run.executor,
        allow_unmentioned_objects=config.scenes.allow_unmentioned_objects,
        precision="fp32",  # figures do not depend on the processor
    )
    write_table(SIMILARITIES, results.similarities, OUT / "similarities.parquet")
    write_table(ANSWERS, results.answers, OUT / "answers.parquet")
    write_table(METRICS, results.metrics, OUT / "metrics.parquet")
    small = {
        str(benchmark): {
            str(model): select_overall_metrics(of_model)
            for model, of_model in rows.groupby("model", sort=False)
        }
        for benchmark, rows in results.metrics.groupby("benchmark", sort=False)
    }
    write_json(OUT / "metrics.json", small)
    write_csv(OUT / "variants.csv", results.variants)
    write_csv(OUT / "differences.csv", results.differences)
    write_csv(OUT / "separability.csv", results.separability)
    write_csv(OUT / "compounds.csv", results.compounds)
    write_csv(OUT / "retained.csv", results.retained)
    write_csv(OUT / "bounds.csv", results.bounds)
    folders, _ = list_checkpoints(tuned)
    write_csv(OUT / "probes.csv", probe_positions(folders, SCENES, executor=config.run.executor, **how))
    log_retained(results.metrics, results.retained)
    detected = evaluate_detectors(
        "data/base", ASSEMBLED, SCENES, n_bootstrap=section.n_bootstrap, seed=section.seed, **how
    )
    write_table(METRICS, detected, OUT / "detectors.parquet")
    log_detectors(detected)


if __name__ == "__main__":
    run_stage(
        evaluate,
        images_needed={
            "data/evaluate/similarities.parquet": SIMILARITIES,
            "data/evaluate/answers.parquet": ANSWERS,
            "data/evaluate/metrics.parquet": METRICS,
            "data/evaluate/metrics.json": None,
            "data/evaluate/variants.csv": None,
            "data/evaluate/differences.csv": None,
            "data/evaluate/separability.csv": None,
            "data/evaluate/compounds.csv": None,
            "data/evaluate/retained.csv": None,
            "data/evaluate/bounds.csv": None,
            "data/evaluate/probes.csv": None,
            "data/evaluate/detectors.parquet": METRICS,
        },
    )
