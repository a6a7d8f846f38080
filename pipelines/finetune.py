"""Stage ``finetune``: variants × seeds as a Ray Tune experiment, one MLflow run each."""

from pathlib import Path

from caramel.config import Config
from caramel.models.devices import compute, gpus_of
from caramel.running.stages import run
from caramel.running.tracking_store import store_root
from caramel.storage.files import empty_folder
from caramel.training import finetune as library

ROWS, IMAGES = "data/assemble/training.parquet", "data/assemble/images.parquet"


def finetune(config: Config) -> None:
    """Write data/finetune/<variant>-<seed>, one checkpoint folder each, curves.csv and mixtures.csv."""
    section = config.finetune
    out = empty_folder(Path("data/finetune"))
    fit = section.model_dump(exclude={"variants", "seeds", "own", "negatives", "mix", "processes"})
    tuned = library.finetune(
        variants=section.variants,
        seeds=section.seeds,
        base="data/base",
        rows=ROWS,
        images=IMAGES,
        data=["data/base", ROWS, IMAGES],
        own=section.own,
        negatives=section.negatives,
        mix=section.mix,
        settings={**fit, **compute(config.run.device, config.run.precision)},
        processes=section.processes,
        workers=config.run.workers,
        executor=config.run.executor,
        folder=Path("work/finetune"),
        out=out,
        root=store_root(),
        gpus=gpus_of(config.run.gpus.finetune, config.run.device),
    )
    tuned.curves.to_csv(out / "curves.csv", index=False)
    tuned.mixtures.to_csv(out / "mixtures.csv", index=False)


if __name__ == "__main__":
    run(finetune, images_needed={"data/finetune": None})
