"""Command ``crepe index``: count the atoms and compounds of a training corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.crepe.inputs import EXISTING, add_out_option, add_spelling_option, list_input_files
from caramel.cli.options import FOLDER
from caramel.cli.output import echo
from caramel.errors import ConfigError

if TYPE_CHECKING:
    from caramel.crepe.binding_splits import CaptionPair


@click.command("index")
@click.argument("corpus", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--graphs",
    type=EXISTING,
    help="Folder with Visual Genome's image_data.json, scene_graphs.json and region_graphs.json: their words are counted.",
)
@click.option(
    "--benchmark",
    "benchmarks",
    multiple=True,
    metavar="NAME",
    help="Benchmark whose captions' words are counted, instead of --graphs; repeatable. Needs --data and --caption-parser.",
)
@click.option("--data", type=FOLDER, help="Folder that holds one folder per benchmark.")
@click.option(
    "--caption-parser",
    metavar="PARSER",
    help="Parser of the benchmarks' captions: spacy:MODEL or seq2seq:FOLDER.",
)
@click.option(
    "--compounds",
    default="all",
    show_default=True,
    type=click.Choice(["all", "attributes", "relations"]),
    help="Which compounds of the benchmarks' captions binding.csv is about.",
)
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
    corpus: Path,
    graphs: Path | None,
    benchmarks: tuple[str, ...],
    data: Path | None,
    caption_parser: str | None,
    compounds: str,
    out: Path,
    column: str,
    parser: str,
    correct_spelling: bool,
) -> None:
    """Count the atoms and compounds of a training corpus.

    CORPUS is a file of captions: .txt (one per line), .tsv, .csv, .jsonl or .parquet. Only words that occur in a region of
    --graphs, or in a caption of --benchmark, are counted. Runs on all cores, or on the cluster at RAY_ADDRESS; finished
    parts are not computed again.

    With --benchmark it also writes binding.csv: which compounds of each instance the corpus does not hold. `caramel
    metrics --binding` gives every figure by it.

    \b
    Example:
      caramel crepe index cc3m.csv --graphs vg/ --out cc3m_index/
      caramel crepe index cc3m.csv --benchmark sugarcrepe --data benchmarks/ --caption-parser spacy:en_core_web_sm \\
        --out cc3m_index/
    """
    from caramel.crepe.binding_splits import SPLITS_NAME, compute_binding_splits, parse_pairs
    from caramel.crepe.build import build_graph_index
    from caramel.crepe.corpus_index import FOLDERS, NAME, SHARDS, VOCABULARY, build_index
    from caramel.io.files import forbid_overwriting_inputs, write_csv
    from caramel.io.output_paths import check_folder, remove_file

    if bool(graphs) == bool(benchmarks) or bool(benchmarks) != bool(data and caption_parser):
        raise ConfigError("Give either --graphs, or --benchmark with --data and --caption-parser.")
    if benchmarks and correct_spelling:
        raise ConfigError(
            "--correct-spelling is for the descriptions of --graphs. A benchmark's captions stay as they are."
        )
    for name in FOLDERS:
        check_folder(out / name)
    written = [out / name for name in (NAME, VOCABULARY, SPLITS_NAME)]
    read = [corpus, *(list_input_files(graphs) if graphs else []), *([data] if data else [])]
    forbid_overwriting_inputs([*written, *(out / SHARDS).glob("*.parquet")], read)
    remove_file(out / SPLITS_NAME)  # an earlier run's may be of another index
    if graphs:
        path, words = build_graph_index(
            corpus, graphs, out, column=column, parser=parser, correct_spelling=correct_spelling
        )
        echo(f"Looked for {words:,} words. Written to {path}.")
        return
    assert data
    assert caption_parser
    pairs = _read_pairs(benchmarks, data)
    parsed = parse_pairs(pairs, caption_parser)
    atoms = frozenset(atom for graph in parsed.values() for atom in graph.list_atoms())
    path = build_index(corpus, atoms, column=column, folder=out, parser=parser)
    splits = compute_binding_splits(pairs, parsed, out, compounds=compounds)
    write_csv(out / SPLITS_NAME, splits)
    for (benchmark, positive, negative), rows in splits.groupby(["benchmark", "positive", "negative"]):
        echo(f"{len(rows):10,}  {benchmark}: positive {positive}, negative {negative}")
    echo(f"Looked for {len(atoms):,} words. Written to {path} and {out / SPLITS_NAME}.")


def _read_pairs(benchmarks: tuple[str, ...], data: Path) -> list[CaptionPair]:
    """Return the captions and negatives of benchmarks."""
    from caramel.crepe.binding_splits import list_caption_pairs
    from caramel.evaluation.benchmark_source import locate_benchmark, read_task

    names = list(dict.fromkeys(benchmarks))
    tasks = [(name, read_task(locate_benchmark(name, data, None))) for name in names]
    return [pair for name, task in tasks for pair in list_caption_pairs(task, name)]
