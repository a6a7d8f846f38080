"""Command ``crepe systematicity``: build the set of regions with one compound."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.crepe.inputs import (
    EXISTING,
    SetOptions,
    add_set_options,
    add_spelling_option,
    list_input_files,
    print_counts,
)


@click.command("systematicity")
@add_set_options
@click.option("--index", required=True, type=EXISTING, help="Folder that `caramel crepe index` wrote.")
@click.option("--name", required=True, help="Name of the training corpus in the names of files.")
@add_spelling_option
def build_systematicity_set(settings: SetOptions, index: Path, name: str, correct_spelling: bool) -> None:
    """Build the systematicity set, split by what the corpus contains.

    Regions of one compound get hard negatives; --raw has those of several, too. Writes one file for each of the splits seen_compounds, unseen_compounds and
    unseen_atoms, frequencies_in_NAME.csv and rejects.csv to --out.

    \b
    Example:
      caramel crepe systematicity --graphs vg/ --index cc3m_index/ --name cc3m --words wordnet:dict/ --out data/crepe_systematicity
    """
    from caramel.crepe.build import REJECTS, check_corpus_name, write_systematicity_set
    from caramel.crepe.corpus_index import NAME, VOCABULARY
    from caramel.crepe.systematicity import SPLITS, get_file_paths, get_frequency_path, get_raw_path
    from caramel.io.files import forbid_overwriting_inputs

    check_corpus_name(name)
    out = settings.out
    forbid_overwriting_inputs(
        [
            out / REJECTS,
            get_frequency_path(out, name),
            *get_file_paths(out, name).values(),
            *(get_raw_path(settings.raw, split, name) for split in SPLITS if settings.raw),
        ],
        [
            *list_input_files(settings.graphs, settings.words, settings.sensible),
            index / NAME,
            index / VOCABULARY,
        ],
    )
    counts = write_systematicity_set(
        settings.build(), index=index, name=name, correct_spelling=correct_spelling
    )
    print_counts(counts, out)
