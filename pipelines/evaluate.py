"""Stage ``evaluate``: every model on the benchmark, as a Ray Tune grid."""

from __future__ import annotations

from pathlib import Path

from caramel import tables
from caramel.config import Config
from caramel.evaluation.detectors import detect
from caramel.evaluation.grid import evaluate_models
from caramel.evaluation.logged import log_detectors, log_retained
from caramel.evaluation.results.summary import overall
from caramel.running.stages import run
from caramel.storage.files import write_csv, write_json

OUT, WORK = Path("data/evaluate"), Path("work/evaluate")


def evaluate(config: Config) -> None:
    """Score the base and every fine-tuned model; write similarities, metrics, comparisons, what was kept, and detectors."""
    found = evaluate_models(
        [(variant, seed) for variant in config.finetune.variants for seed in config.finetune.seeds],
        **config.evaluate.model_dump(),
        executor=config.run.executor,
        device=config.run.device,
        gpus=config.run.gpus.evaluate,
        precision="fp32",  # figures do not depend on the processor
        folder=WORK,
    )
    tables.write(tables.SIMILARITIES, found.similarities, OUT / "similarities.parquet")
    tables.write(tables.ANSWERS, found.answers, OUT / "answers.parquet")
    tables.write(tables.METRICS, found.metrics, OUT / "metrics.parquet")
    small = {
        str(benchmark): {
            str(model): overall(of_model) for model, of_model in rows.groupby("model", sort=False)
        }
        for benchmark, rows in found.metrics.groupby("benchmark", sort=False)
    }
    write_json(OUT / "metrics.json", small)
    write_csv(OUT / "variants.csv", found.variants)
    write_csv(OUT / "differences.csv", found.differences)
    write_csv(OUT / "separability.csv", found.separability)
    write_csv(OUT / "compounds.csv", found.compounds)
    write_csv(OUT / "retained.csv", found.retained)
    log_retained(found.metrics, found.retained)
    detected = detect(
        "data/base",
        Path("data/assemble"),
        Path("data/scenes"),
        split=config.evaluate.split,
        device=config.run.device,
        gpus=config.run.gpus.evaluate,
        batch=config.evaluate.batch,
        bootstrap=config.evaluate.bootstrap,
        seed=config.evaluate.seed,
        executor=config.run.executor,
        folder=WORK,
    )
    tables.write(tables.METRICS, detected, OUT / "detectors.parquet")
    log_detectors(detected)


if __name__ == "__main__":
    run(
        evaluate,
        images_needed={
            "data/evaluate/similarities.parquet": tables.SIMILARITIES,
            "data/evaluate/answers.parquet": tables.ANSWERS,
            "data/evaluate/metrics.parquet": tables.METRICS,
            "data/evaluate/metrics.json": None,
            "data/evaluate/variants.csv": None,
            "data/evaluate/differences.csv": None,
            "data/evaluate/separability.csv": None,
            "data/evaluate/compounds.csv": None,
            "data/evaluate/retained.csv": None,
            "data/evaluate/detectors.parquet": tables.METRICS,
        },
    )
