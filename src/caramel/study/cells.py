"""What a study runs: each draw of the scenes with some generators and bases, all of them with each other.

Generator and base are trained on the scenes, so theirs are seeds *within* a draw of the scenes: the second generator
of one draw has nothing to do with the second one of another. Fine-tuning is within a generator and a base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from caramel.config.schema import Config
from caramel.errors import ConfigError

# Which seeds are drawn anew together. Which negatives are drawn, and the noise they are drawn from, go with the scenes:
# generators of one draw fill the same cells. Batches of fine-tuning are drawn from its seed and the number of rows alone: with
# one seed for all, bases of one draw would share that luck, and less of it would be seen between them than there is.
SEEDS: Mapping[str, tuple[str, ...]] = {
    "scenes": ("scenes.seed", "negatives.seed", "scores.seed", "refine.seed", "synthesize.seed"),
    "generator": ("train_generator.seed",),
    "base": ("pretrain.seed",),
    "fine-tuning": ("finetune.seeds",),
}
# Steps of the seeds. ``config.Nested`` keeps them apart; seeds of fine-tuning meet none of another cell's if below 10,000.
OF_A_DRAW, OF_A_GENERATOR, OF_A_BASE = 1_000_000, 100_000, 10_000


class Cell(NamedTuple):
    """One run of the graph: which draw of the scenes, which generator and base of that draw, each from 0."""

    scenes: int
    generator: int
    base: int


def list_cells(draws: Sequence[tuple[int, int]]) -> list[Cell]:
    """Return the cells of ``study.draws``, those that share stages one after the other."""
    return [
        Cell(draw, generator, base)
        for draw, (generators, bases) in enumerate(draws)
        for generator, base in product(range(generators), range(bases))
    ]


def compute_seeds(config: Config, cell: Cell) -> dict[str, int | list[int]]:
    """Return the seeds of a cell by dotted key: those of the config, each on by a step for what it is within.

    No cell has the config's own seeds: figures on those are known before the study, and a test on them again confirms
    nothing. The seeds of the scenes go on per draw, a generator's per draw and generator, a base's per draw and base, those
    of fine-tuning per draw, generator and base.

    Raises:
        ConfigError: a seed would be larger than a seed may be.
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
                raise ConfigError(f"{key} = {config_seeds}: too large to add {steps[level]} to it.")
            seeds_by_key[key] = stepped if isinstance(config_seeds, tuple) else stepped[0]
    return seeds_by_key


def check_config(config: Config) -> None:
    """Raise a ConfigError if the profile cannot be studied; the message lists why."""
    wanted = {config.report.primary_comparison.variant, config.report.primary_comparison.against} - {"base"}
    lacking = sorted(wanted - {*config.finetune.variants})
    if config.scenes.source != "world":
        raise ConfigError(
            f"A study draws the scenes anew: scenes.source must be 'world', not {config.scenes.source!r}."
        )
    for name in ("train_generator", "pretrain"):
        if getattr(config, name).backend == "pretrained":
            raise ConfigError(f"A study trains {name} anew: {name}.backend cannot be 'pretrained'.")
    if lacking:
        raise ConfigError(
            f"report.primary_comparison names {lacking[0]!r}, and finetune.variants has it not."
        )
