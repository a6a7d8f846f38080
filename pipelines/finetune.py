"""Stage ``finetune``: variants × seeds as a Ray Tune experiment, one MLflow run each."""

from pathlib import Path

from caramel.config.schema import Config
from caramel.io.files import create_empty_folder, write_csv, write_json
from caramel.models.devices import get_gpus_per_worker, resolve_compute
from caramel.runtime.mlflow.store import get_store_root
from caramel.runtime.stage_runner import run_stage
from caramel.training.recipes import finetune as library

ROWS, IMAGES = "data/assemble/training.parquet", "data/assemble/images.parquet"


def finetune(config: Config) -> None:
    """Write data/finetune/<variant>-<seed>, one checkpoint folder each, curves.csv, mixtures.csv, searched.csv and overrides.json."""
    section = config.finetune
    out = create_empty_folder(Path("data/finetune"))
    fit = section.model_dump(
        exclude={"variants", "seeds", "overrides", "search", "negatives", "wise_ft_alphas", "nproc"}
    )
    tuned = library.train_variants(
        variants=section.variants,
        seeds=section.seeds,
        base="data/base",
        rows=ROWS,
        images=IMAGES,
        data=["data/base", ROWS, IMAGES],
        overrides=section.overrides,
        negatives=section.negatives,
        wise_ft_alphas=section.wise_ft_alphas,
        search=section.search.model_dump() if section.search else None,
        settings={**fit, **resolve_compute(config.run.device, config.run.precision)},
        nproc=section.nproc,
        num_workers=config.run.num_workers,
        executor=config.run.executor,
        folder=Path("work/finetune"),
        out=out,
        root=get_store_root(),
        gpus=get_gpus_per_worker(config.run.gpus.finetune, config.run.device),
    )
    write_csv(out / "curves.csv", tuned.curves)
    write_csv(out / "mixtures.csv", tuned.mixtures)
    write_csv(out / "searched.csv", tuned.searched)
    write_json(out / "overrides.json", tuned.overrides)


if __name__ == "__main__":
    run_stage(finetune, images_needed={"data/finetune": None})
