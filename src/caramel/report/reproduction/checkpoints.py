"""Read the list of the field's checkpoints, ``rosters/checkpoints.yaml``: their specs, sizes, licences and sources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field

from caramel.io.safe_yaml import parse_yaml

ROSTERS = files("caramel.report.reproduction") / "rosters"
OPEN_CLIP = "open_clip"  # the family that a spec need not name


class Checkpoint(BaseModel):
    """A checkpoint that was published.

    Attributes:
        families: families of models that load it, see ``registry.FAMILIES``.
        source: where it is published.
        params: millions of parameters; None: not known.
        licence: SPDX name; None: not confirmed.
        quick_gelu: whether a CLIP was trained with QuickGELU; None for other models.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    families: tuple[str, ...] = Field(min_length=1)
    source: str
    params: int | None = Field(None, gt=0)
    licence: str | None = None
    quick_gelu: bool | None = None


def read_roster(name: str) -> Mapping[str, object]:
    """Return the content of a file of the rosters."""
    path = ROSTERS / name
    document: Mapping[str, object] = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    return document


@cache
def read_checkpoints() -> Mapping[str, Checkpoint]:
    """Return the checkpoints by spec; one that several families load has several specs."""
    return {
        target if family == OPEN_CLIP else f"{family}:{target}": checkpoint
        for target, value in read_roster("checkpoints.yaml").items()
        for checkpoint in [Checkpoint.model_validate(value)]
        for family in checkpoint.families
    }


def select_checkpoints(
    family: str | None, min_size: int | None, max_size: int | None
) -> tuple[dict[str, Checkpoint], int]:
    """Return checkpoints by spec, and the number of those that a limit of the size excludes as unknown.

    Args:
        family: family that loads them; None: all.
        min_size, max_size: limits of the size in millions of parameters, inclusive; None: no limit.
    """
    of_family = {
        spec: checkpoint
        for spec, checkpoint in read_checkpoints().items()
        if family is None or spec.startswith(f"{family}:") or (family,) == checkpoint.families
    }
    if min_size is None and max_size is None:
        return of_family, 0
    sizes = {spec: item.params for spec, item in of_family.items() if item.params is not None}
    least, most = min_size or 0, max_size or max(sizes.values(), default=0)
    selected = {spec: of_family[spec] for spec, size in sizes.items() if least <= size <= most}
    return selected, len(of_family) - len(sizes)
