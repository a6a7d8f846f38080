"""List the runs of a study: each draw of the scenes, crossed with several generators and bases.

Generator and base are trained on the scenes, so their seeds are nested *within* a draw of the scenes: the
second generators of two draws are unrelated. Fine-tuning is nested within a generator and a base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from caramel.config.schema import Config
from caramel.errors import ConfigError

# Seeds that change together. The choice of negatives and its noise change with the scenes, so the generators of
# one draw fill the same cells. Fine-tuning draws batches only from its seed and the number of rows. With one seed
# for all bases of a draw, they would share these batches and the spread between them would be underestimated.
SEEDS: Mapping[str, tuple[str, ...]] = {
    "scenes": ("scenes.seed", "negatives.seed", "scores.seed", "refine.seed", "synthesize.seed"),
    "generator": ("train_generator.seed",),
    "base": ("pretrain.seed",),
    "fine-tuning": ("finetune.seeds",),
}
# Seed increments. ``config.Nested`` keeps them apart; fine-tuning seeds below 10,000 never meet another cell's.
OF_A_DRAW, OF_A_GENERATOR, OF_A_BASE = 1_000_000, 100_000, 10_000


class Cell(NamedTuple):
    """One run of the graph: indices, from 0, of the draw of the scenes, and of its generator and base."""

    scenes: int
    generator: int
    base: int


def list_cells(draws: Sequence[tuple[int, int]]) -> list[Cell]:
    """Return the cells of ``study.draws``; cells that share stages are adjacent."""
    return [
        Cell(draw, generator, base)
        for draw, (generators, bases) in enumerate(draws)
        for generator, base in product(range(generators), range(bases))
    ]


def compute_seeds(config: Config, cell: Cell) -> dict[str, int | list[int]]:
    """Return dotted key -> seed of a cell: the config's seeds plus an increment for each level.

    - Scene seeds change per draw.
    - Generator seeds change per draw and generator.
    - Base seeds change per draw and base.
    - Fine-tuning seeds change per draw, generator and base.

    No cell has the config's own seeds. Metrics on those are known before the study, so testing on them again
    would confirm nothing.

    Raises:
        ConfigError: a seed would exceed the largest allowed seed.
    """
    values = config.model_dump()
    draw = OF_A_DRAW * (cell.scenes + 1)
    generator, base = OF_A_GENERATOR * cell.generator, OF_A_BASE * cell.base
    steps = {
        "scenes": draw,
        "generator": draw + generator,
        "base": draw + base,
        "fine-tuning": draw + generator + base,
    }
    seeds_by_key: dict[str, int | list[int]] = {}
    for level, keys in SEEDS.items():
        for key in keys:
            section, name = key.split(".")
            config_seeds = values[section][name]
            stepped = [
                seed + steps[level]
                for seed in (config_seeds if isinstance(config_seeds, tuple) else (config_seeds,))
            ]
            if max(stepped) >= 2**31:
                raise ConfigError(f"{key} = {config_seeds}: too large to add {steps[level]}.")
            seeds_by_key[key] = stepped if isinstance(config_seeds, tuple) else stepped[0]
    return seeds_by_key


def check_config(config: Config) -> None:
    """Raise a ConfigError that lists the reasons if the profile cannot be studied."""
    wanted = {config.report.primary_comparison.variant, config.report.primary_comparison.against} - {"base"}
    lacking = sorted(wanted - {*config.finetune.variants})
    if config.scenes.source != "world":
        raise ConfigError(
            f"A study draws new scenes: scenes.source must be 'world', not {config.scenes.source!r}."
        )
    for name in ("train_generator", "pretrain"):
        if getattr(config, name).backend == "pretrained":
            raise ConfigError(f"A study retrains {name}: {name}.backend cannot be 'pretrained'.")
    if lacking:
        raise ConfigError(f"report.primary_comparison names {lacking[0]!r}, which finetune.variants lacks.")
