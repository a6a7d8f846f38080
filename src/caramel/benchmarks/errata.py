"""Errata: corrections of a benchmark's published items as rows of a versioned file, applied without changing its files.

A row of the file (a YAML list, or JSON Lines) is::

    benchmark: sugarcrepe_pp
    release: github.com/Sri-Harsha/scpp, folder data
    instance: swap_obj-2
    field: negative_caption      # caption, negative_caption or caption2
    from: A person prepares a pizza while a person watches.
    exclude: true                # or `to: corrected text`
    reason: negative_equals_caption

``from`` is the published text. It must be the item's, so that a patch is never applied to another release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from caramel.benchmarks.content import hash_texts
from caramel.benchmarks.tasks import select_rows
from caramel.errors import DataError, format_items
from caramel.interfaces.benchmark import Comparisons, Task
from caramel.io.readers import read_json_rows
from caramel.io.safe_yaml import read_yaml
from caramel.io.validators import format_value, read_text_field

FIELDS = ("caption", "negative_caption", "caption2")
KNOWN = "known"  # instead of a file: the package's own errata of the benchmark
FOLDER = Path(__file__).parent / "known_errata"


@dataclass(frozen=True)
class Erratum:
    """One correction of a text of an instance; ``new`` None: the instance is excluded."""

    where: str
    benchmark: str
    release: str
    instance: str
    field: str
    old: str
    new: str | None
    reason: str


class Corrections(NamedTuple):
    """The errata of a benchmark after they were checked against its items.

    Attributes:
        task: the corrected items, without the excluded ones.
        excluded: instances that are left out.
        corrected: instance with a corrected text -> hash of its texts now.
        published: touched instance -> hash of its texts as published.
    """

    task: Comparisons
    excluded: frozenset[str]
    corrected: Mapping[str, str]
    published: Mapping[str, str]


def find_errata_file(errata: str, benchmark: str) -> Path:
    """Return the file that ``--errata`` names: a path, or for ``KNOWN`` the package's file of the benchmark.

    Raises:
        DataError: the package has no errata of the benchmark.
    """
    if errata != KNOWN:
        return Path(errata)
    path = FOLDER / f"{benchmark}.yaml"
    if not path.is_file():
        names = sorted(file.stem for file in FOLDER.glob("*.yaml"))
        raise DataError(
            f"There are no known errata of benchmark {benchmark!r}; there are of {names}. Give a file."
        )
    return path


def read_errata(path: Path, benchmark: str) -> list[Erratum]:
    """Return the errata of a benchmark in a file; rows of other benchmarks are left out.

    Raises:
        DataError: a row is invalid, the file has no row of the benchmark, or two rows correct the same text.
        ConfigError: the file is missing, or is not YAML.
    """
    errata = [erratum for erratum in _iter_errata(path) if erratum.benchmark == benchmark]
    if not errata:
        raise DataError(f"{str(path)!r} has no erratum of benchmark {benchmark!r}. Give a file that has one.")
    first: dict[tuple[str, str], Erratum] = {}
    for erratum in errata:
        other = first.setdefault((erratum.instance, erratum.field), erratum)
        if other is not erratum:
            raise DataError(
                f"{erratum.where}: {other.where} is about the same text, {erratum.field} of {erratum.instance!r}. "
                f"Keep one of them."
            )
    return errata


def _iter_errata(path: Path) -> Iterator[Erratum]:
    if path.suffix in (".jsonl", ".json"):
        rows = read_json_rows(path)
    else:
        listed = read_yaml(path, "Give a file of errata.")
        if not isinstance(listed, list):
            raise DataError(f"{str(path)!r} must be a list of rows, not {format_value(listed)}.")
        rows = [(f"{str(path)!r}, row {number}", row) for number, row in enumerate(listed, 1)]
    for where, row in rows:
        yield _parse_erratum(row, where)


def _parse_erratum(row: Any, where: str) -> Erratum:
    values = {name: read_text_field(row, name, where) for name in ("benchmark", "release", "instance", "field", "from", "reason")}  # fmt: skip
    if values["field"] not in FIELDS:
        raise DataError(f"{where}: field {format_value(values['field'])} must be one of {', '.join(FIELDS)}.")
    exclude = row.get("exclude", False)
    if not isinstance(exclude, bool) or exclude == ("to" in row):
        raise DataError(f"{where}: give either `exclude: true` or the corrected text `to`.")
    if unknown := sorted(map(str, set(row) - {*values, "to", "exclude"})):
        raise DataError(f"{where}: unknown keys {unknown}.")
    new = None if exclude else read_text_field(row, "to", where)
    if new == values["from"]:
        raise DataError(f"{where}: `from` and `to` are the same text.")
    old = values.pop("from")
    return Erratum(where=where, old=old, new=new, **values)


def apply_errata(errata: Sequence[Erratum], task: Task) -> Corrections:
    """Return the corrected items of a benchmark.

    Args:
        errata: of ``read_errata``.
        task: all items of the benchmark as published.

    Raises:
        DataError: an instance does not exist, or the text that an erratum corrects is not the item's.
    """
    if not isinstance(task, Comparisons):
        raise DataError(
            "Errata correct captions and hard negatives; this benchmark ranks candidates. Correct its files instead."
        )
    rows = task.rows.reset_index(drop=True)
    numbers = {name: number for number, name in enumerate(rows["instance_id"])}
    misfits = [problem for erratum in errata if (problem := _find_misfit(erratum, rows, numbers))]
    if misfits:
        raise DataError(
            f"{len(misfits)} of {len(errata)} errata do not fit the items; nothing was computed.\n{format_items(misfits)}\n"
            f"They are of another release, or already applied."
        )
    published = dict(zip(rows["instance_id"], hash_texts(task), strict=True))
    for erratum in errata:
        if erratum.new is not None:
            rows.loc[numbers[erratum.instance], erratum.field] = erratum.new
    hashes = dict(zip(rows["instance_id"], hash_texts(Comparisons(rows, task.images)), strict=True))
    excluded = frozenset(erratum.instance for erratum in errata if erratum.new is None)
    touched = {erratum.instance for erratum in errata}
    remaining = rows[~rows["instance_id"].isin(excluded)].reset_index(drop=True)
    corrected = select_rows(Comparisons(rows, task.images), remaining)
    assert isinstance(corrected, Comparisons)
    return Corrections(
        corrected,
        excluded,
        {name: hashes[name] for name in sorted(touched - excluded)},
        {name: published[name] for name in sorted(touched)},
    )


def _find_misfit(erratum: Erratum, rows: Any, numbers: Mapping[str, int]) -> str | None:
    """Return why an erratum does not fit its item, None if it does."""
    number = numbers.get(erratum.instance)
    if number is None:
        return f"{erratum.where}: there is no instance {erratum.instance!r}"
    text = rows.loc[number, erratum.field]
    if text != erratum.old:
        return f"{erratum.where}: {erratum.field} of {erratum.instance!r} is {format_value(text)}, not {format_value(erratum.old)}"
    return None
