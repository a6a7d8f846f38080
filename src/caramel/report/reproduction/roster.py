"""Read the rosters: the tables of the papers, the models of their rows and where everything is published.

The cells of a table (benchmark, subset, metric, printed value) are rows of ``published.csv``. ``rosters/models.yaml``
gives each of its models a spec, or the reason why there is none. The source of a spec is that of its checkpoint
(``checkpoints``). ``rosters/papers.yaml`` says where the benchmarks are
published and which result files the authors released.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import pandas as pd
from pydantic import BaseModel, ConfigDict, model_validator

from caramel.errors import ConfigError, format_items
from caramel.models.specs import get_score_type
from caramel.report.published_rows import read_published_rows
from caramel.report.reproduction.checkpoints import read_checkpoints, read_roster

CHECKPOINTS = "{checkpoints}"  # in a spec: the folder of checkpoints that the user downloaded
_TABLE = re.compile(r"(?P<paper>\w+):T(?P<number>\d{1,2})")


class RosterModel(BaseModel):
    """Model of a table's row; exactly one of ``spec``, ``unavailable`` and ``mean_of`` is set.

    Attributes:
        spec: what ``caramel eval --model`` takes, perhaps with ``CHECKPOINTS``.
        source: where its weights are published.
        differs: how it differs from the paper's model, as far as is known.
        unavailable: why caramel cannot score it.
        mean_of: models whose mean the row is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    spec: str = ""
    source: str = ""
    differs: str = ""
    unavailable: str = ""
    mean_of: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_one_origin(self) -> RosterModel:
        if sum(map(bool, (self.spec, self.unavailable, self.mean_of))) != 1:
            raise ValueError("give exactly one of spec, unavailable and mean_of")
        if bool(self.spec) != bool(self.source):
            raise ValueError("a model with a spec has a source, others have none")
        return self


class Paper(BaseModel):
    """A paper with reproducible tables.

    Attributes:
        paper: its name in ``published.csv``.
        citation: authors, year and arXiv number.
        benchmarks: benchmark -> where it is published.
        other_tables: table without figures of models -> what it holds.
        released: model -> benchmark -> file of results, relative to the folder of the authors' files.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    citation: str
    benchmarks: dict[str, str]
    other_tables: dict[str, str] = {}
    released: dict[str, dict[str, str]] = {}


@dataclass(frozen=True)
class PublishedTable:
    """A table of a paper.

    Attributes:
        key: the paper's key in ``rosters/papers.yaml``.
        table: such as ``Table 8``.
        cells: its rows of ``published.csv``, in their order.
    """

    key: str
    table: str
    cells: pd.DataFrame

    @property
    def name(self) -> str:
        """Return the name on the command line, such as ``sugarcrepe:T8``."""
        return f"{self.key}:T{self.table.removeprefix('Table ')}"

    @property
    def models(self) -> list[str]:
        """Return the models of its rows."""
        return list(dict.fromkeys(self.cells["model"]))

    def list_benchmarks(self, model: str) -> list[str]:
        """Return the benchmarks on which the table has figures of a model."""
        return list(dict.fromkeys(self.cells["benchmark"][self.cells["model"] == model]))


@cache
def read_papers() -> Mapping[str, Paper]:
    """Return the papers by their keys."""
    return {key: Paper.model_validate(value) for key, value in read_roster("papers.yaml").items()}


@cache
def read_models() -> Mapping[str, RosterModel]:
    """Return the models by their names in ``published.csv``."""
    listed = read_checkpoints()
    models = {}
    for name, entry in read_roster("models.yaml").items():
        values: dict[str, Any] = dict(cast("Mapping[str, Any]", entry))
        if (checkpoint := listed.get(values.get("spec", ""))) is not None:
            values["source"] = checkpoint.source
        models[name] = RosterModel.model_validate(values)
    return models


def resolve_models(checkpoints: Path, overrides: Sequence[str]) -> Mapping[str, RosterModel]:
    """Return the models with the folder of checkpoints in their specs.

    Args:
        checkpoints: the folder.
        overrides: ``NAME=SPEC``: specs that replace those of the roster, for weights that are elsewhere.

    Raises:
        ConfigError: a name is unknown, or a spec's type of score is not that of the published row.
        BackendError: the family of a spec cannot be determined.
    """
    models = {
        name: model.model_copy(update={"spec": model.spec.replace(CHECKPOINTS, str(checkpoints))})
        for name, model in read_models().items()
    }
    for override in overrides:
        start = override.partition("=")[0]
        name = next((known for known in models if override.startswith(f"{known}=")), start)
        spec = override[len(name) + 1 :]
        if name not in models or not spec:
            near = format_items(difflib.get_close_matches(name, models) or [*models][:3])
            raise ConfigError(f"{override!r} is not NAME=SPEC with a model of the rosters, such as:\n{near}")
        _check_score(name, spec)
        models[name] = RosterModel(spec=spec, source="given with --model")
    return models


def _check_score(name: str, spec: str) -> None:
    """Raise a ConfigError if a spec's type of score is not that of the model's published figures."""
    rows = read_published_rows()
    published = set(rows["score"][rows["model"] == name])
    if (score := get_score_type(spec)) not in published:
        raise ConfigError(
            f"{spec!r} is scored by {score!r}, the published figures of {name!r} by {', '.join(sorted(published))}. "
            f"They cannot be compared."
        )


def list_tables(key: str) -> list[PublishedTable]:
    """Return the reproducible tables of a paper, in their order."""
    rows = read_published_rows()
    rows = rows[rows["paper"] == read_papers()[key].paper]
    return [
        PublishedTable(key, str(table), cells.reset_index(drop=True))
        for table, cells in rows.groupby("table", sort=False)
    ]


def find_table(name: str) -> PublishedTable:
    """Return the table named ``PAPER:TABLE``, such as ``sugarcrepe:T8``.

    Raises:
        ConfigError: there is no such paper or table, or the table has no figures of models.
    """
    match = _TABLE.fullmatch(name)
    papers = read_papers()
    if match is None or match["paper"] not in papers:
        raise ConfigError(
            f"{name!r} is no table. Write PAPER:TABLE, such as sugarcrepe:T8; papers: {', '.join(papers)}."
        )
    tables = {table.name: table for table in list_tables(match["paper"])}
    title = f"Table {match['number']}"
    if title in (others := papers[match["paper"]].other_tables):
        raise ConfigError(f"{name} is {others[title]}.")
    if name not in tables:
        raise ConfigError(f"{name!r} is not among the tables of {match['paper']}:\n{format_items([*tables])}")
    return tables[name]


def build_slug(model: str) -> str:
    """Return a model's name as it may stand in a spec (``NAME=SPEC``) and in paths."""
    return re.sub(r"[^\w.+-]+", "-", model).strip("-")
