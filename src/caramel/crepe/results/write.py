"""Write all figures and tables of CREPE that a folder of results gives."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from caramel.crepe.results import figures, recalls
from caramel.crepe.results.frequencies import read_frequencies, summarise_frequencies
from caramel.errors import ConfigError, DataError, format_items
from caramel.io.files import write_atomically, write_text
from caramel.io.readers import iter_csv_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERIFIED_TABLES = ("table_4", "table_7")  # of people's answers


def write_crepe_figures(
    results: Path | None,
    out: Path,
    *,
    frequencies: Sequence[Path] = (),
    imagenet: Path | None = None,
    verified: Mapping[str, pd.DataFrame] | None = None,
) -> tuple[list[Path], list[str]]:
    """Write the figures (PNG) and tables (CSV); return their paths, and why others could not be made.

    Args:
        results: folder that `caramel eval` wrote; None: no figures and tables of models.
        out: folder to write to.
        frequencies: files ``frequencies_in_NAME.csv`` of systematicity sets, for table 8 and figure 12.
        imagenet: CSV file with columns model and accuracy (ImageNet top-1, in per cent); None: the accuracies on
            benchmark ``zero_shot`` of the results.
        verified: tables 4 and 7 (``results.verification``).

    Raises:
        DataError: the results or a file is missing or broken.
    """
    written: list[Path] = []
    missing: list[str] = []
    tables = dict(verified or {})
    if results is None:
        missing.append("figures 4 to 8 and 13, tables_15_16: no folder of results is given")
    else:
        rows = recalls.read_recalls(results)
        accuracies = recalls.select_imagenet(rows) if imagenet is None else read_accuracies(imagenet)
        for name, figure in _iter_figures(rows, accuracies):
            if figure is None:
                missing.append(name)
            else:
                written.append(_save_figure(figure, out / f"{name.partition(':')[0]}.png"))
        tables["tables_15_16"] = recalls.summarise_retrieval(rows)
        if tables["tables_15_16"].empty:
            missing.append("tables_15_16: the results have no crepe_retrieval")
    for path in frequencies:
        counts = read_frequencies(path)
        corpus = _name_corpus(path)
        tables[f"table_8_{corpus}"] = summarise_frequencies(counts)
        written.append(_save_figure(figures.plot_frequencies(counts), out / f"figure_12_{corpus}.png"))
    if not frequencies:
        missing.append("figure_12, table_8: no file of frequencies is given")
    missing += [
        f"{name}: no answers of people to its items are given"
        for name in VERIFIED_TABLES
        if name not in tables or tables[name].empty
    ]
    for name, table in tables.items():
        if not table.empty:
            path = out / f"{name}.csv"
            write_text(path, table.to_csv(index=False, float_format="%.2f"))
            written.append(path)
    return written, missing


def list_output_names(frequencies: Sequence[Path]) -> list[str]:
    """Return the names of all files that ``write_crepe_figures`` may write."""
    corpora = [_name_corpus(path) for path in frequencies]
    if double := [str(path) for path in frequencies if corpora.count(_name_corpus(path)) > 1]:
        raise ConfigError(
            f"Files of frequencies have one name, and their figures would have, too:\n{format_items(double)}\nRename one."
        )
    return [
        *(f"figure_{number}.png" for number in (4, 5, 6, 7, 8, 13)),
        *(f"figure_12_{corpus}.png" for corpus in corpora),
        *(f"table_8_{corpus}.csv" for corpus in corpora),
        "tables_15_16.csv",
        *(f"{name}.csv" for name in VERIFIED_TABLES),
    ]


def _name_corpus(frequencies: Path) -> str:
    return frequencies.stem.removeprefix("frequencies_in_")


def read_accuracies(path: Path) -> dict[str, float]:
    """Return model -> accuracy in per cent of a CSV file with columns model and accuracy.

    Raises:
        DataError: the file lacks a column, or an accuracy is not in [0, 100].
    """
    accuracies = {}
    for where, row in iter_csv_rows(path, ["model", "accuracy"]):
        try:
            accuracies[row["model"]] = float(row["accuracy"])
        except ValueError:
            raise DataError(f"{where}: accuracy {row['accuracy']!r} is no number.") from None
        if not 0 <= accuracies[row["model"]] <= 100:
            raise DataError(f"{where}: accuracy {row['accuracy']!r} is not in [0, 100].")
    return accuracies


def _iter_figures(rows: pd.DataFrame, accuracies: Mapping[str, float]) -> Iterator[tuple[str, Figure | None]]:
    """Yield name and figure; with no figure, the name and the reason."""
    systematic, productive = recalls.select_systematicity(rows), recalls.select_productivity(rows)
    if systematic.empty:
        yield "figure_4, figure_7: the results have no crepe_systematicity", None
    else:
        yield "figure_4", figures.plot_systematicity(systematic)
        panels = {
            f"{split.upper()}, {title}": systematic[
                (systematic["split"] == split) & (systematic["type"] == negative_type)
            ]
            for negative_type, (title, _) in list(figures.SYSTEMATIC.items())[1:]
            for split in ("sc", "uc")
        }
        yield _name_correlation("figure_7", figures.plot_against_imagenet(panels, accuracies))
    if productive.empty:
        yield "figures 5, 6, 8, 13: the results have no crepe_productivity", None
        return
    yield "figure_5", figures.plot_mean_productivity(productive)
    yield "figure_6", figures.plot_productivity(productive)
    panels = {
        f"{title}, n = {n}": productive[(productive["type"] == negative_type) & (productive["n"] == n)]
        for negative_type, (title, _) in figures.PRODUCTIVE.items()
        for n in figures.FIG_8_ATOMS
    }
    yield _name_correlation("figure_8", figures.plot_against_imagenet(panels, accuracies))
    if "all_types" in set(productive["type"]):
        yield "figure_13", figures.plot_productivity(productive, figures.ALL_TYPES)
    else:
        yield "figure_13: the results have no negatives of all types together", None


def _name_correlation(name: str, figure: Figure | None) -> tuple[str, Figure | None]:
    reason = f"fewer than {figures.AT_LEAST} models have an ImageNet accuracy"
    return (name if figure else f"{name}: {reason}"), figure


def _save_figure(figure: Figure, path: Path) -> Path:
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"text.parse_math": False}):  # a model's name may have dollar signs
        figure.savefig(buffer, format="png", dpi=130)
    write_atomically(path, lambda temporary: temporary.write_bytes(buffer.getvalue()))
    return path
