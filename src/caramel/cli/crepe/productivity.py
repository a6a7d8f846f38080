"""Command ``crepe productivity``: build the set of captions of growing complexity."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from caramel.cli.crepe.inputs import (
    SetOptions,
    add_set_options,
    list_input_files,
    print_counts,
)
from caramel.cli.options import RenamedOption, collect_options
from caramel.interfaces.connections import AUTO, MaxConnections
from caramel.io.validators import format_value


class _Connections(click.ParamType):  # type: ignore[type-arg]
    """``auto``, or a number of connections in the range of ``max_connections`` in params.yaml."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> MaxConnections:
        from caramel.config.fields import MOST_CONNECTIONS, check_connections

        try:
            return check_connections(AUTO if value == AUTO else int(value))
        except ValueError:
            message = f"{format_value(value)} is neither auto nor an integer from 1 to {MOST_CONNECTIONS}."
            self.fail(message, param, ctx)


@dataclass(frozen=True)
class WriterOptions:
    """The language model that writes captions, and its limits."""

    writer: str | None
    max_connections: MaxConnections
    max_requests: int | None


@click.command("productivity")
@add_set_options
@click.option(
    "--per-complexity",
    cls=RenamedOption,
    old="--each",
    default=2_000,
    show_default=True,
    type=click.IntRange(1),
    help="Largest number of captions of each complexity.",
)
@click.option(
    "--walks",
    default=4,
    show_default=True,
    type=click.IntRange(1, 100),
    help="Number of random walks through an image's graph, for each complexity.",
)
@click.option(
    "--writer",
    help="Language model that writes captions of more than four atoms: chat:MODEL@URL or local:FOLDER.  [default: a "
    "template]",
)
@click.option(
    "--entailment",
    help="Folder of a natural language inference model; swaps that follow from their caption are left out. Required with "
    "--writer, as published; none: no check.  [default: none with the template]",
)
@click.option(
    "--max-connections",
    cls=RenamedOption,
    old="--at-once",
    default=AUTO,
    show_default=True,
    type=_Connections(),
    help="Number of concurrent requests to the language model; auto: as many as the server takes. For local:FOLDER it is "
    "the batch size, a number.",
)
@click.option(
    "--max-requests",
    type=click.IntRange(1),
    help="Largest number of requests to the language model. Requests with stored replies count too; a caption needs at "
    "least one.  [default: no limit]",
)
@collect_options(WriterOptions, "writing")
def build_productivity_set(
    settings: SetOptions, per_complexity: int, walks: int, entailment: str | None, writing: WriterOptions
) -> None:
    """Build the productivity set: captions of 4 to 12 atoms.

    Captions come from random walks through scene graphs. Writes one file for each type of hard negative (atom, swap,
    negate) and complexity, and rejects.csv, to --out. Replies of a language model are cached in work/replies and not
    requested again.

    \b
    Example:
      caramel crepe productivity --graphs vg/ --words wordnet:dict/ --out data/crepe_productivity
    """
    from caramel.crepe.build import (
        NO_CHECK,
        REJECTS,
        check_entailment,
        load_caption_writer,
        load_entailment_scorer,
        write_productivity_set,
    )
    from caramel.crepe.productivity import COMPLEXITIES, FOILS, get_file_path, get_raw_path
    from caramel.io.files import forbid_overwriting_inputs
    from caramel.sources.captions.llm.writer import STORE

    out = settings.out
    written = [get_file_path(out, negative_type, n) for negative_type in FOILS for n in COMPLEXITIES]
    written += [get_raw_path(settings.raw, n) for n in COMPLEXITIES if settings.raw]
    inputs = list_input_files(settings.graphs, settings.words, settings.sensible)
    check_entailment(writing.writer, entailment)
    models = [Path(entailment)] if entailment not in (None, NO_CHECK) else []
    forbid_overwriting_inputs([out / REJECTS, *written], [*inputs, *models])
    counts = write_productivity_set(
        settings.build(),
        per_complexity=per_complexity,
        walks=walks,
        write_captions=load_caption_writer(
            writing.writer,
            STORE,
            seed=settings.seed,
            max_connections=writing.max_connections,
            max_requests=writing.max_requests,
        ),
        entailed=load_entailment_scorer(entailment),
    )
    print_counts(counts, out)
