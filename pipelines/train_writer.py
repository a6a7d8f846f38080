"""Stage ``train_writer``: train the small language model that writes captions of the world, if the profile uses it."""

from pathlib import Path

from caramel.config.schema import Config
from caramel.models.devices import resolve_compute
from caramel.runtime.ray.sharded_map import compute_fingerprint
from caramel.runtime.stage_runner import run_stage, skip_stage
from caramel.training.recipes.caption_lm import FIXED, CaptionModelConfig
from caramel.training.recipes.caption_lm import train_writer as train
from caramel.training.tracked import open_training_run
from caramel.utils.typed_settings import build_settings

FOLDER = "data/writer"


def train_writer(config: Config) -> None:
    """Write data/writer, a model folder with curves.csv."""
    section = config.train_writer
    asks = "language_model" in (config.negatives.backend, config.negatives.paraphrases)
    targets = config.negatives.language_model.target, config.negatives.language_model.paraphraser
    if not asks or f"local:{FOLDER}" not in targets:
        reason = f"stage 'train_writer' skipped: no language model of negatives is local:{FOLDER}"
        print(reason)
        skip_stage({FOLDER: None}, reason)
        return
    settings = section.model_dump() | resolve_compute(config.run.device, config.run.precision)
    key = compute_fingerprint(train.__module__, settings)
    with open_training_run("train_writer", key, settings, [], Path(FOLDER)) as out:
        curve = train(
            build_settings(CaptionModelConfig, {**settings, **FIXED}),
            scratch=Path("work/train_writer", key),
            out=out.folder,
            on_points=out.log_points,
        )
        out.write_results(curve)


if __name__ == "__main__":
    run_stage(train_writer)
