"""Command ``crepe productivity``: build the set of captions of growing complexity."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.crepe.inputs import (
    EXISTING,
    REJECTS,
    SetOptions,
    add_set_options,
    build_crop_rules,
    list_graph_atoms,
    list_input_files,
    load_plausibility_scorer,
    load_thesaurus,
    print_counts,
)
from caramel.cli.options import RenamedOption, collect_options

if TYPE_CHECKING:
    from caramel.crepe.llm_captions import CaptionWriter


@dataclass(frozen=True)
class WriterOptions:
    """The language model that writes captions, and its limits."""

    writer: str | None
    max_connections: int
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
    type=EXISTING,
    help="Folder of a natural language inference model. Swaps that follow from their caption are left out.  [default: "
    "no check]",
)
@click.option(
    "--max-connections",
    cls=RenamedOption,
    old="--at-once",
    default=16,
    show_default=True,
    type=click.IntRange(1),
    help="Number of concurrent requests to the language model.",
)
@click.option(
    "--max-requests",
    type=click.IntRange(1),
    help="Largest number of requests to the language model. Requests with stored replies count too; a caption needs at "
    "least one.  [default: no limit]",
)
@collect_options(WriterOptions, "writing")
def build_productivity_set(
    settings: SetOptions, per_complexity: int, walks: int, entailment: Path | None, writing: WriterOptions
) -> None:
    """Build the productivity set: captions of 4 to 12 atoms.

    Captions come from random walks through scene graphs. Writes one file for each type of hard negative (atom, swap,
    negate) and complexity, and rejects.csv, to --out. Replies of a language model are cached in work/replies and not
    requested again.

    \b
    Example:
      caramel crepe productivity --graphs vg/ --words wordnet:dict/ --out data/crepe_productivity
    """
    from caramel.crepe.example_files import open_rejects
    from caramel.crepe.productivity import (
        COMPLEXITIES,
        FOILS,
        get_file_path,
        sample_drafts,
        write_productivity_files,
    )
    from caramel.crepe.visual_genome_graphs import iter_image_graphs
    from caramel.io.files import forbid_overwriting_inputs
    from caramel.registry import TEXT_JUDGES

    graphs, out = settings.graphs, settings.out

    written = [get_file_path(out, negative_type, n) for negative_type in FOILS for n in COMPLEXITIES]
    forbid_overwriting_inputs(
        [out / REJECTS, *written],
        [*list_input_files(graphs, settings.words, settings.sensible), *([entailment] if entailment else [])],
    )
    thesaurus = load_thesaurus(settings.words, lambda: list_graph_atoms(graphs))
    rules = build_crop_rules(settings.min_area)
    with open_rejects(out / REJECTS) as (reject, reasons):
        drafted = sample_drafts(
            iter_image_graphs(graphs, reject, regions=False),
            complexities=COMPLEXITIES,
            tries=walks,
            most=per_complexity,
            rules=rules,
            seed=settings.seed,
            reject=reject,
        )
        counts = write_productivity_files(
            drafted,
            thesaurus,
            out,
            seed=settings.seed,
            reject=reject,
            plausible=load_plausibility_scorer(settings.sensible),
            write_captions=_build_caption_writer(writing, settings.seed),
            entailed=None
            if entailment is None
            else TEXT_JUDGES["entailment"].load(str(entailment)).predict_probabilities,
        )
    print_counts(
        {f"{negative_type}, {n} atoms": count for (negative_type, n), count in counts.items()}, reasons, out
    )


def _build_caption_writer(options: WriterOptions, seed: int) -> CaptionWriter:
    """Return the function that writes captions, with a template or a language model."""
    from caramel.crepe.llm_captions import create_caption_writer, write_template_captions
    from caramel.registry import LANGUAGE_MODELS
    from caramel.sources.captions.llm.writer import STORE

    if options.writer is None:
        return write_template_captions
    family, _, target = options.writer.partition(":")
    return create_caption_writer(
        LANGUAGE_MODELS[family].load(target, max_connections=options.max_connections, workers=0),
        STORE,
        seed=seed,
        max_connections=options.max_connections,
        max_requests=options.max_requests,
    )
