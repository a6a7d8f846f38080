"""What a study runs: each draw of the scenes with some generators and bases, all of them with each other.

Generator and base are trained on the scenes, so theirs are seeds *within* a draw of the scenes: the second generator
of one draw has nothing to do with the second one of another. Fine-tuning is within a generator and a base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from caramel.config import Config
from caramel.errors import ConfigError

# Which seeds are drawn anew together. Which negatives are drawn, and the noise they are drawn from, go with the scenes:
# generators of one draw fill the same cells.
SEEDS: Mapping[str, tuple[str, ...]] = {
    "scenes": ("scenes.seed", "negatives.seed", "scores.seed", "refine.seed", "synthesize.seed"),
    "generator": ("train_generator.seed",),
    "base": ("pretrain.seed",),
}
OF_A_DRAW, WITHIN = 1000, 100  # steps of the seeds; ``config.Nested`` keeps them apart


class Cell(NamedTuple):
    """One run of the graph: which draw of the scenes, which generator and base of that draw, each from 0."""

    scenes: int
    generator: int
    base: int


def cells(draws: Sequence[tuple[int, int]]) -> list[Cell]:
    """Return the cells of ``study.draws``, those that share stages one after the other."""
    return [
        Cell(draw, generator, base)
        for draw, (generators, bases) in enumerate(draws)
        for generator, base in product(range(generators), range(bases))
    ]


def seeds(config: Config, cell: Cell) -> dict[str, int]:
    """Return the seeds of a cell by dotted key: those of the config + 1000 per draw + 100 within it.

    The first cell has the config's own seeds. The seeds of fine-tuning are ``finetune.seeds`` in every cell.

    Raises:
        ConfigError: a seed would be larger than a seed may be.
    """
    values = config.model_dump()
    steps = {
        kind: OF_A_DRAW * cell.scenes + WITHIN * (number if kind != "scenes" else 0)
        for kind, number in cell._asdict().items()
    }
    found = {}
    for kind, keys in SEEDS.items():
        for key in keys:
            section, name = key.split(".")
            found[key] = values[section][name] + steps[kind]
            if found[key] >= 2**31:
                raise ConfigError(f"{key} = {values[section][name]}: too large to add {steps[kind]} to it.")
    return found


def check(config: Config) -> None:
    """Raise a ConfigError if the profile cannot be studied; the message lists why."""
    wanted = {config.report.contrast.variant, config.report.contrast.against} - {"base"}
    lacking = sorted(wanted - {*config.finetune.variants})
    if config.scenes.source != "world":
        raise ConfigError(
            f"A study draws the scenes anew: scenes.source must be 'world', not {config.scenes.source!r}."
        )
    for name in ("train_generator", "pretrain"):
        if getattr(config, name).backend == "pretrained":
            raise ConfigError(f"A study trains {name} anew: {name}.backend cannot be 'pretrained'.")
    if lacking:
        raise ConfigError(f"report.contrast names {lacking[0]!r}, and finetune.variants has it not.")
