"""Command ``crepe systematicity``: build the set of regions with one compound."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.crepe.inputs import (
    EXISTING,
    REJECTS,
    SetOptions,
    add_set_options,
    build_crop_rules,
    iter_regions,
    list_input_files,
    load_plausibility_scorer,
    load_thesaurus,
    print_counts,
)
from caramel.errors import ConfigError


@click.command("systematicity")
@add_set_options
@click.option("--index", required=True, type=EXISTING, help="Folder that `caramel crepe index` wrote.")
@click.option("--name", required=True, help="Name of the training corpus in the names of files.")
def build_systematicity_set(settings: SetOptions, index: Path, name: str) -> None:
    """Build the systematicity set, split by what the corpus contains.

    Each region has one compound. Writes one file for each of the splits seen_compounds, unseen_compounds and
    unseen_atoms, and rejects.csv, to --out.

    \b
    Example:
      caramel crepe systematicity --graphs vg/ --index cc3m_index/ --name cc3m --words wordnet:dict/ --out data/crepe_systematicity
    """
    from caramel.crepe.corpus_index import NAME, VOCABULARY, read_seen_atoms
    from caramel.crepe.example_files import open_rejects
    from caramel.crepe.systematicity import get_file_paths, write_systematicity_files
    from caramel.io.files import forbid_overwriting_inputs

    graphs, out = settings.graphs, settings.out

    if not name.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(
            f"--name {name!r} must consist of letters, digits, - and _: it is part of file names."
        )
    forbid_overwriting_inputs(
        [out / REJECTS, *get_file_paths(out, name).values()],
        [*list_input_files(graphs, settings.words, settings.sensible), index / NAME, index / VOCABULARY],
    )
    thesaurus = load_thesaurus(settings.words, lambda: read_seen_atoms(index / NAME))
    rules = build_crop_rules(settings.min_area)
    calls = iter(range(2))
    with open_rejects(out / REJECTS) as (reject, reasons):
        counts = write_systematicity_files(
            lambda: iter_regions(graphs, reject if next(calls) else lambda row: None, rules),
            thesaurus,
            index / NAME,
            out,
            name=name,
            seed=settings.seed,
            reject=reject,
            plausible=load_plausibility_scorer(settings.sensible),
        )
    print_counts({f"{split}": count for split, count in counts.items()}, reasons, out)
