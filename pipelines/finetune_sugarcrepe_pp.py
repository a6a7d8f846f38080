"""Stage ``finetune_sugarcrepe_pp``: tune models on 40 % of SugarCrepe++ and score them on the other rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from caramel.config.schema import Config
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.evaluation import METRICS, SIMILARITIES
from caramel.schemas.io import build_frame, write_table

if TYPE_CHECKING:
    import pandas as pd

    from caramel.training.recipes.sugarcrepe_pp_trials import Encoder

OUT = Path("data/finetune_sugarcrepe_pp")
BENCHMARK = "sugarcrepe_pp"


def finetune_sugarcrepe_pp(config: Config) -> None:
    """Write data/finetune_sugarcrepe_pp/{similarities,metrics}.parquet; without settings, without rows."""
    section = config.finetune_sugarcrepe_pp
    OUT.mkdir(parents=True, exist_ok=True)
    if section is None:
        write_table(SIMILARITIES, build_frame(SIMILARITIES, []), OUT / "similarities.parquet")
        write_table(METRICS, build_frame(METRICS, []), OUT / "metrics.parquet")
        return
    from caramel.evaluation.mlflow_logging import select_headline_metrics
    from caramel.evaluation.results.summary import summarise_similarities
    from caramel.evaluation.score_model import compute_live_similarities, load_checked_benchmark
    from caramel.interfaces.benchmark import Comparisons
    from caramel.interfaces.settings import Compute
    from caramel.models.devices import resolve_compute
    from caramel.training.recipes import sugarcrepe_pp_trials as library
    from caramel.training.recipes.sugarcrepe_pp_finetune import build_tuning_config
    from caramel.utils.resampling import Bootstrap

    bootstrap = Bootstrap(config.evaluate.n_bootstrap, config.evaluate.seed)
    images = Path(section.images) if section.images is not None else None
    on = load_checked_benchmark(BENCHMARK, Path(section.data), images, None, {})
    assert isinstance(on.task, Comparisons)

    def score(encoder: Encoder) -> pd.DataFrame:
        return compute_live_similarities(encoder, on, section.batch_size)

    def measure(similarities: pd.DataFrame) -> pd.DataFrame:
        return summarise_similarities(similarities, {BENCHMARK: on.benchmark}, bootstrap=bootstrap)

    def list_metrics(similarities: pd.DataFrame) -> dict[str, float]:
        return select_headline_metrics(measure(similarities).dropna(subset=["value"]))

    similarities = library.finetune_sugarcrepe_pp(
        section.models,
        section.seeds,
        on.task,
        on.keys,
        config=build_tuning_config(
            **section.model_dump(exclude={"models", "seeds", "data", "images"}),
            compute=Compute(**resolve_compute(config.run.device, config.run.precision)),
            num_workers=config.run.num_workers,
        ),
        score=score,
        measure=list_metrics,
        folder=Path("work/finetune_sugarcrepe_pp"),
    )
    write_table(SIMILARITIES, similarities, OUT / "similarities.parquet")
    write_table(METRICS, measure(similarities), OUT / "metrics.parquet")


if __name__ == "__main__":
    run_stage(finetune_sugarcrepe_pp)
