"""Stage ``finetune``: variants × seeds as a Ray Tune experiment, one MLflow run each."""

from pathlib import Path

from caramel.config import Config
from caramel.models.devices import compute, resolve_device
from caramel.running.stages import run
from caramel.running.tracking_store import store_root
from caramel.storage.files import empty_folder
from caramel.training import finetune as library

IMAGES = "data/assemble/images.parquet"


def finetune(config: Config) -> None:
    """Write data/finetune/<variant>-<seed>, one checkpoint folder each, and curves.csv."""
    section = config.finetune
    out = empty_folder(Path("data/finetune"))
    sets: dict[str, str] = {name: f"data/assemble/training/{name}.parquet" for name in section.variants}
    fit = section.model_dump(exclude={"variants", "seeds"})
    curves = library.finetune(
        variants=section.variants,
        seeds=section.seeds,
        base="data/base",
        sets=sets,
        validation=f"data/assemble/training/{library.MEASURED_BY}.parquet",
        images=IMAGES,
        data=["data/base", *sets.values(), IMAGES],
        settings={**fit, **compute(config.run.device, config.run.precision)},
        executor=config.run.executor,
        folder=Path("work/finetune"),
        out=out,
        root=store_root(),
        gpus=1.0 if resolve_device(config.run.device) == "cuda" else 0.0,
    )
    curves.to_csv(out / "curves.csv", index=False)


if __name__ == "__main__":
    run(finetune, images_needed={"data/finetune": None})
