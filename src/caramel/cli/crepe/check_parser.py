"""Command ``crepe check-parser``: compare a parser with annotated graphs, as table 3 does."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.output import echo


@click.command("check-parser")
@click.argument("rows", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--parser",
    required=True,
    help="Parser of the captions: phrases, spacy:MODEL (a package or folder) or seq2seq:FOLDER.",
)
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="CSV file to write."
)
def check_graph_parser(rows: Path, parser: str, out: Path) -> None:
    """Compare a parser with annotated scene graphs.

    ROWS is a CSV file with columns caption and scene_graph, in the form of FACTUAL: "( man , on , horse )". Prints precision and recall of objects, attributes, relations and triplets. Writes a CSV file with a row for
    each caption and type: how many were annotated, parsed, and both.

    \b
    Example:
      caramel crepe check-parser factual/random/test.csv --parser spacy:en_core_web_sm --out parser.csv
    """
    from caramel.crepe.parser_check import check_parser, compute_precision_recall, read_annotated_captions
    from caramel.io.files import forbid_overwriting_inputs, write_csv

    forbid_overwriting_inputs([out], [rows])
    counts = check_parser(read_annotated_captions(rows), parser)
    write_csv(out, counts)
    for item, row in compute_precision_recall(counts).iterrows():
        echo(
            f"{item:20} precision {row['precision']:.1%}, recall {row['recall']:.1%} of {row['n_annotated']:,.0f}"
        )
    echo(f"Written to {out}.")
