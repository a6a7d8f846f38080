"""Read what only the authors can state about a release: authors, licence and answers to the datasheet's questions.

They write it in a YAML file, ``release.yaml`` beside ``dvc.yaml`` or another file. Missing points are listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from caramel.errors import ConfigError, format_items, redact_logins
from caramel.io.safe_yaml import flatten_mapping, read_yaml
from caramel.release.pin_file import format_field_errors
from caramel.release.publishing.licences import LICENCES, find_conflicts, format_unknown_licence

Text = Annotated[str, Field(min_length=1, max_length=20_000)]


class Author(BaseModel):
    """A cited author."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    given: Text
    family: Text
    orcid: str | None = Field(None, pattern=r"^\d{4}-\d{4}-\d{4}-\d{3}[\dX]$")
    affiliation: Text | None = None

    @property
    def name(self) -> str:
        """Return the full name."""
        return f"{self.given} {self.family}"


class Source(BaseModel):
    """A source of images or captions, named as in column ``source``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    licence: Text | None = None
    url: Text | None = None
    note: Text | None = None


class About(BaseModel):
    """Everything that the authors stated; missing values are None or empty."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    title: Text | None = None
    description: Text | None = None
    licence: Text | None = None
    authors: list[Author] = []
    url: str | None = Field(
        None, max_length=2000, pattern=r"^[^\s{}]+$"
    )  # a brace would end a field of BibTeX
    doi: str | None = Field(None, pattern=r"^10\.\d{4,9}/[^\s{}]+$")
    contact: Text | None = None
    languages: list[Text] = ["en"]
    keywords: list[Text] = []
    people: bool | None = None  # whether the data relates to people
    sources: dict[str, Source] = {}
    answers: dict[str, Text] = {}


def read_about(path: Path) -> About:
    """Read the authors' metadata from a file.

    Raises:
        ConfigError: the file is missing or not YAML, a field is unknown or has the wrong form, or an address
            holds a password.
    """
    raw = read_yaml(path, "docs/release.md shows one.")
    # A key in an address may be needed by every reader; a password never is.
    if logins := [
        key for key, value in flatten_mapping(raw).items() if redact_logins(str(value)) != str(value)
    ]:
        raise ConfigError(
            f"{path}: the address in {', '.join(logins)} holds a name or password, which a release would publish. Remove it."
        )
    try:
        return About.model_validate({} if raw is None else raw)
    except ValidationError as error:
        raise ConfigError(
            f"{path} has fields in the wrong form:\n{format_items(format_field_errors(error))}\n"
            f"docs/release.md describes all fields."
        ) from error


def strip_source_settings(source: str) -> str:
    """Return a source without the settings in brackets after its name: ``synthetic (steps=6)`` is ``synthetic``."""
    return source.partition(" (")[0]


def list_open_points(about: About, sources: Iterable[str]) -> list[str]:
    """Return the missing points and licence conflicts of a release, one line each."""
    points = [
        f"{name}: not stated"
        for name in ("title", "licence", "authors", "contact")
        if not getattr(about, name)
    ]
    released = LICENCES.get(about.licence or "")
    if about.licence and released is None:
        points.append(f"licence: {format_unknown_licence(about.licence)}")
    known = list(sources)
    for name in known:
        licence = about.sources.get(name, Source()).licence
        if licence is None:
            points.append(f"sources.{name}.licence: not stated")
        elif licence not in LICENCES:
            points.append(f"sources.{name}.licence: {format_unknown_licence(licence)}")
        elif released is not None:
            points += [
                f"licence: {why}" for why in find_conflicts(released, f"source {name!r}", LICENCES[licence])
            ]
    others = [name for name in about.sources if name not in known]
    return points + [
        f"sources.{name}: not a source of this version, which has {', '.join(known)}" for name in others
    ]
