"""Command ``crepe index``: count the atoms and compounds of a training corpus."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.crepe.inputs import (
    add_graphs_option,
    add_out_option,
    add_spelling_option,
    list_input_files,
)
from caramel.cli.output import echo


@click.command("index")
@click.argument("corpus", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@add_graphs_option
@add_out_option
@click.option(
    "--column",
    default="caption",
    show_default=True,
    help="Column of CORPUS that holds the captions; its number from 1 in a .tsv without a header, as in CC3M and CC12M.",
)
@click.option(
    "--parser",
    default="phrases",
    show_default=True,
    help="Parser of the captions: phrases, spacy:MODEL (a package or folder) or seq2seq:FOLDER, such as FACTUAL's "
    "flan-T5.",
)
@add_spelling_option
def index_corpus(
    corpus: Path, graphs: Path, out: Path, column: str, parser: str, correct_spelling: bool
) -> None:
    """Count the atoms and compounds of a training corpus.

    CORPUS is a file of captions: .txt (one per line), .tsv, .csv, .jsonl or .parquet. Only words that occur in a region of
    --graphs are counted. Runs on all cores, or on the cluster at RAY_ADDRESS; finished parts are not computed again.

    \b
    Example:
      caramel crepe index cc3m.csv --graphs vg/ --out cc3m_index/
    """
    from caramel.crepe.build import build_graph_index
    from caramel.crepe.corpus_index import FOLDERS, NAME, SHARDS, VOCABULARY
    from caramel.io.files import forbid_overwriting_inputs
    from caramel.io.output_paths import check_folder

    for name in FOLDERS:
        check_folder(out / name)
    forbid_overwriting_inputs(
        [out / NAME, out / VOCABULARY, *(out / SHARDS).glob("*.parquet")], [corpus, *list_input_files(graphs)]
    )
    path, words = build_graph_index(
        corpus, graphs, out, column=column, parser=parser, correct_spelling=correct_spelling
    )
    echo(f"Looked for {words:,} words. Written to {path}.")
