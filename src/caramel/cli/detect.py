"""Command ``detect``: train synthetic-item detectors and let them answer benchmarks."""

from __future__ import annotations

import os
from pathlib import Path

import click

from caramel.cli.options import FOLDER, add_bootstrap_options
from caramel.cli.output import echo
from caramel.errors import ConfigError
from caramel.io.files import forbid_overwriting_inputs
from caramel.utils.resampling import Bootstrap


@click.command("detect")
@click.option(
    "--model",
    "models",
    required=True,
    multiple=True,
    metavar="SPEC",
    help="Dual encoder, repeatable, as in `caramel eval`.",
)
@click.option("--training", required=True, type=FOLDER, help="Folder of the training set, in BiVLC's form.")
@click.option(
    "--training-images", type=FOLDER, help="Folder of its images.  [default: the training set's own folder]"
)
@click.option("--benchmark", "benchmarks", required=True, metavar="NAME[,NAME…]", help="Benchmarks of pairs.")
@click.option("--data", required=True, type=FOLDER, help="Folder that holds one folder per benchmark.")
@click.option(
    "--images",
    type=FOLDER,
    help="Folder of the images, as in `caramel eval`.  [default: the benchmark's own folder]",
)
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@click.option(
    "--image-epochs",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Epochs of the detector of images.",
)
@click.option(
    "--text-epochs",
    default=10,
    show_default=True,
    type=click.IntRange(1),
    help="Epochs of the detector of texts.",
)
@click.option(
    "--device", default="auto", show_default=True, help="Device to run on: auto, cpu, cuda or cuda:N."
)
@click.option(
    "--batch-size", default=64, show_default=True, type=click.IntRange(1), help="Items per forward pass."
)
@add_bootstrap_options
def detect_synthetic_items(
    models: tuple[str, ...],
    training: Path,
    training_images: Path | None,
    benchmarks: str,
    data: Path,
    images: Path | None,
    out: Path,
    image_epochs: int,
    text_epochs: int,
    device: str,
    batch_size: int,
    bootstrap: Bootstrap,
) -> None:
    """Train detectors of synthetic items and answer benchmarks.

    These are the detectors of BiVLC's Table 5. A linear head on the frozen encoder says whether an image, or a text, is
    synthetic (a negative). The metrics say how much of a benchmark's retrieval this solves.

    Writes BENCHMARK-MODEL.csv for each model and benchmark, in the form of BiVLC's authors (`caramel metrics` reads it),
    metrics.parquet and metrics.csv to --out, and logs an MLflow run for each.

    \b
    Example:
      caramel detect --model base=ViT-B-32-quickgelu:openai --model trohn_img=data/finetune/trohn_img-11 \\
        --training release/formats/train/bivlc --benchmark bivlc,sugarcrepe --data benchmarks/ --images coco/val2017 \\
        --out results/detectors
    """
    import pandas as pd

    from caramel.cli.compute_options import STORE
    from caramel.cli.eval import locate_sources
    from caramel.evaluation import detection
    from caramel.evaluation.benchmark_source import BenchmarkSource
    from caramel.evaluation.external.detector_files import IMAGE, TEXT
    from caramel.evaluation.external.run_files import METRICS_FILES, write_metrics
    from caramel.io.files import write_csv
    from caramel.models.specs import parse_spec
    from caramel.report.reproduction.roster import build_slug
    from caramel.report.terminal import format_metrics

    sources = locate_sources(benchmarks, data, images, "fail")
    learnt = os.path.realpath(training)
    source = BenchmarkSource("bivlc", learnt, str(training_images or learnt), {}, missing="fail")
    names = {spec: parse_spec(spec).name for spec in models}
    files = {
        (spec, known.benchmark): out / f"{known.benchmark}-{build_slug(name)}.csv"
        for spec, name in names.items()
        for known in sources
    }
    if len(set(files.values())) < len(files) or len(names) < len(models):
        raise ConfigError(
            f"--model {' '.join(models)}: two models have one name. Name them apart: NAME=SPEC."
        )
    written = [*files.values(), *(out / name for name in METRICS_FILES)]
    forbid_overwriting_inputs(written, [training, *(Path(known.data) for known in sources)])
    out.mkdir(parents=True, exist_ok=True)
    tasks = {known.benchmark: detection.read_pairs(known) for known in sources}
    epochs = {IMAGE: image_epochs, TEXT: text_epochs}
    config = detection.DetectorConfig(epochs, device, batch_size, bootstrap.seed, Path(STORE))
    parts = []
    for spec, name in names.items():
        encode, heads = detection.train_detectors(spec, source, config)
        for benchmark, task in tasks.items():
            answers = detection.detect_pairs(encode, heads, task)
            write_csv(files[spec, benchmark], answers)
            measured = detection.measure_detectors(
                answers, task, model=name, benchmark=benchmark, bootstrap=bootstrap
            )
            detection.log_detectors(measured, spec, source, config, benchmark=benchmark)
            parts.append(measured)
    metrics = pd.concat(parts, ignore_index=True)
    write_metrics(metrics, out)
    echo(format_metrics(metrics))
    echo(f"\nWritten to {out}.")
