"""Stage ``finetune``: train variants × seeds as a Ray Tune experiment, with one MLflow run per model."""

from pathlib import Path

from caramel.config.schema import Config
from caramel.interfaces.settings import Execution
from caramel.io.files import create_empty_folder, write_csv, write_json
from caramel.models.devices import get_gpus_per_worker, resolve_compute
from caramel.runtime.mlflow.store import get_store_root
from caramel.runtime.stage_runner import run_stage
from caramel.training.recipes import finetune as library
from caramel.training.recipes.search import SearchConfig
from caramel.training.tracked_trials import TrainingInputs
from caramel.training.variants import GRID_KEYS
from caramel.utils.typed_settings import build_settings

ROWS, IMAGES = "data/assemble/training.parquet", "data/assemble/images.parquet"


def finetune(config: Config) -> None:
    """Write data/finetune: <variant>-<seed>/ with a checkpoint for each model, and four files for all models.

    The files are curves.csv, mixtures.csv, searched.csv and overrides.json.
    """
    section = config.finetune
    out = create_empty_folder(Path("data/finetune"))
    common = section.model_dump(exclude=set(GRID_KEYS))
    search = build_settings(SearchConfig, section.search.model_dump()) if section.search else None
    gpus = get_gpus_per_worker(config.run.gpus.finetune, config.run.device)
    tuned = library.train_variants(
        variants=section.variants,
        seeds=section.seeds,
        inputs=TrainingInputs("data/base", ROWS, IMAGES, tracked=("data/base", ROWS, IMAGES)),
        common={**common, **resolve_compute(config.run.device, config.run.precision)},
        overrides=section.overrides,
        search=search,
        nproc=section.nproc,
        num_workers=config.run.num_workers,
        execution=Execution(config.run.executor, Path("work/finetune"), gpus),
        out=out,
        root=get_store_root(),
    )
    write_csv(out / "curves.csv", tuned.curves)
    write_csv(out / "mixtures.csv", tuned.mixtures)
    write_csv(out / "searched.csv", tuned.searched)
    write_json(out / "overrides.json", tuned.overrides)


if __name__ == "__main__":
    run_stage(finetune, images_needed={"data/finetune": None}, trains=True)
