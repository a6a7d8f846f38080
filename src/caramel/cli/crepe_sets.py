"""Commands that make sets in CREPE's form out of Visual Genome and a training corpus: crepe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from caramel.cli.options import FOLDER, SEED
from caramel.cli.output import echo
from caramel.errors import ConfigError

if TYPE_CHECKING:
    from caramel.crepe.crops import CropRules
    from caramel.crepe.example_files import PlausibilityScorer
    from caramel.crepe.llm_captions import CaptionWriter
    from caramel.interfaces.scene_graph import Thesaurus

Command = Callable[..., Any]
REJECTS = "rejects.csv"
EXISTING = click.Path(exists=True, file_okay=False, path_type=Path)
_graphs = click.option(
    "--graphs",
    required=True,
    type=EXISTING,
    help="Folder of Visual Genome's image_data.json, scene_graphs.json and region_graphs.json.",
)
_out = click.option("--out", required=True, type=FOLDER, help="Folder to write to.")


def _add_set_options(command: Command) -> Command:
    """Add the options that both sets have."""
    for option in (
        click.option(
            "--words",
            required=True,
            help="What excludes what: wordnet:FOLDER of WordNet's database files, or lists, a few hundred words of our own.",
        ),
        click.option(
            "--sensible",
            type=EXISTING,
            help="Folder of a masked language model, such as BERT, that picks the most sensible negatives. [default: any]",
        ),
        click.option(
            "--min-area",
            default=40_000,
            show_default=True,
            type=click.IntRange(0),
            help="Pixels of a crop at the least; 40,000 is what is published.",
        ),
        click.option("--seed", default=0, show_default=True, type=SEED, help="Of all draws."),
        _out,
        _graphs,
    ):
        command = option(command)
    return command


@click.group()
def crepe() -> None:
    """Make sets as CREPE's (Ma et al. 2023) from scene graphs, in its released form. See docs/crepe.md.

    `caramel eval --benchmark crepe_systematicity` and `crepe_productivity` read them, `caramel audit` judges them.

    \b
    Example:
      caramel crepe index cc3m.csv --graphs vg/ --out cc3m_index/
      caramel crepe systematicity --graphs vg/ --index cc3m_index/ --name cc3m --words wordnet:dict/ --out data/crepe_systematicity
      caramel crepe productivity --graphs vg/ --words wordnet:dict/ --out data/crepe_productivity
    """


@crepe.command()
@click.argument("corpus", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_graphs
@_out
@click.option("--column", default="caption", show_default=True, help="Of the captions in CORPUS.")
@click.option(
    "--parser",
    default="phrases",
    show_default=True,
    help="That reads the captions: phrases, spacy:MODEL (a package or folder) or seq2seq:FOLDER, such as FACTUAL's flan-T5.",
)
def index(corpus: Path, graphs: Path, out: Path, column: str, parser: str) -> None:
    """Count the atoms and compounds of a training corpus: what a model has seen.

    CORPUS is a file of captions: .txt (one per line), .csv, .jsonl or .parquet. Words that no region of --graphs has
    are not looked for. Works on all cores, or on the cluster at RAY_ADDRESS; what is done already is not done again.

    \b
    Example:
      caramel crepe index cc3m.csv --graphs vg/ --out cc3m_index/
    """
    from caramel.crepe.corpus_index import FOLDERS, NAME, SHARDS, VOCABULARY, build_index
    from caramel.io.files import forbid_overwriting_inputs
    from caramel.io.output_paths import check_folder

    for name in FOLDERS:
        check_folder(out / name)
    forbid_overwriting_inputs(
        [out / NAME, out / VOCABULARY, *(out / SHARDS).glob("*.parquet")], [corpus, *_list_inputs(graphs)]
    )
    atoms = {
        atom
        for region in _iter_regions(graphs, lambda reject: None)
        for atom in region.captioned.graph.list_atoms()
    }
    if not atoms:
        raise ConfigError(f"--graphs {str(graphs)!r} has no region of one compound.")
    path = build_index(corpus, atoms, column=column, folder=out, parser=parser)
    echo(f"Looked for {len(atoms):,} words. Written to {path}.")


@crepe.command()
@_add_set_options
@click.option(
    "--index", "seen", required=True, type=EXISTING, help="Folder that `caramel crepe index` wrote."
)
@click.option("--name", required=True, help="Of the training corpus, in the files' names.")
def systematicity(
    graphs: Path,
    out: Path,
    seed: int,
    min_area: int,
    sensible: Path | None,
    words: str,
    seen: Path,
    name: str,
) -> None:
    """Make the set on systematicity: regions of one compound, split by what the corpus has of them.

    Writes a file for each of the splits seen_compounds, unseen_compounds and unseen_atoms, and rejects.csv, to --out.

    \b
    Example:
      caramel crepe systematicity --graphs vg/ --index cc3m_index/ --name cc3m --words wordnet:dict/ --out data/crepe_systematicity
    """
    from caramel.crepe.corpus_index import NAME, VOCABULARY
    from caramel.crepe.example_files import open_rejects
    from caramel.crepe.systematicity import get_file_paths, write_systematicity_files
    from caramel.io.files import forbid_overwriting_inputs

    if not name.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(
            f"--name {name!r} must be of letters, digits, - and _: it is part of a file's name."
        )
    forbid_overwriting_inputs(
        [out / REJECTS, *get_file_paths(out, name).values()],
        [*_list_inputs(graphs, words, sensible), seen / NAME, seen / VOCABULARY],
    )
    known, rules = _load_thesaurus(words), _build_crop_rules(min_area)
    calls = iter(range(2))
    with open_rejects(out / REJECTS) as (reject, reasons):
        counts = write_systematicity_files(
            lambda: _iter_regions(graphs, reject if next(calls) else lambda row: None, rules),
            known,
            seen / NAME,
            out,
            name=name,
            seed=seed,
            reject=reject,
            plausible=_load_plausibility_scorer(sensible),
        )
    _print_counts({f"{split}": count for split, count in counts.items()}, reasons, out)


@crepe.command()
@_add_set_options
@click.option(
    "--each",
    default=2_000,
    show_default=True,
    type=click.IntRange(1),
    help="Captions of each complexity at most.",
)
@click.option(
    "--walks",
    default=4,
    show_default=True,
    type=click.IntRange(1, 100),
    help="Through a picture's graph, for each complexity.",
)
@click.option(
    "--writer",
    help="Language model that writes captions of more than four atoms: chat:MODEL@URL or local:FOLDER. [default: the template]",
)
@click.option(
    "--entailment",
    type=EXISTING,
    help="Folder of a model of natural language inference: swaps that follow from their caption are left out. [default: none]",
)
@click.option(
    "--at-once", default=16, show_default=True, type=click.IntRange(1), help="Requests to it under way."
)
@click.option(
    "--max-requests",
    type=click.IntRange(1),
    help="To it in all, also those whose replies are kept: one a caption at the least. [default: no cap]",
)
def productivity(
    graphs: Path,
    out: Path,
    seed: int,
    min_area: int,
    sensible: Path | None,
    words: str,
    each: int,
    walks: int,
    writer: str | None,
    entailment: Path | None,
    max_connections: int,
    max_requests: int | None,
) -> None:
    """Make the set on productivity: captions of 4 to 12 atoms, by random walks through scene graphs.

    Writes a file for each type of hard negative (atom, swap, negate) and complexity, and rejects.csv, to --out. What a
    language model replied is kept in work/replies and not asked again.

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

    written = [get_file_path(out, negative_type, n) for negative_type in FOILS for n in COMPLEXITIES]
    forbid_overwriting_inputs(
        [out / REJECTS, *written],
        [*_list_inputs(graphs, words, sensible), *([entailment] if entailment else [])],
    )
    known, rules = _load_thesaurus(words), _build_crop_rules(min_area)
    with open_rejects(out / REJECTS) as (reject, reasons):
        drafted = sample_drafts(
            iter_image_graphs(graphs, reject, regions=False),
            complexities=COMPLEXITIES,
            tries=walks,
            most=each,
            rules=rules,
            seed=seed,
            reject=reject,
        )
        counts = write_productivity_files(
            drafted,
            known,
            out,
            seed=seed,
            reject=reject,
            plausible=_load_plausibility_scorer(sensible),
            write_captions=_build_caption_writer(writer, seed, max_connections, max_requests),
            entailed=None
            if entailment is None
            else TEXT_JUDGES["entailment"].load(str(entailment)).predict_probabilities,
        )
    _print_counts(
        {f"{negative_type}, {n} atoms": count for (negative_type, n), count in counts.items()}, reasons, out
    )


def _iter_regions(graphs: Path, reject: Callable[[Any], object], rules: CropRules | None = None) -> Any:
    from caramel.crepe.crops import CropRules
    from caramel.crepe.systematicity import iter_region_examples
    from caramel.crepe.visual_genome_graphs import iter_image_graphs

    return iter_region_examples(
        iter_image_graphs(graphs, reject, regions=True), reject, rules or CropRules(area=0)
    )


def _list_inputs(graphs: Path, words: str = "", sensible: Path | None = None) -> list[Path]:
    """Return what a command reads beside a corpus and its index."""
    from caramel.crepe.visual_genome_graphs import FILES

    target = words.partition(":")[2]
    return [
        *(graphs / name for name in FILES),
        *([Path(target)] if target else []),
        *([sensible] if sensible else []),
    ]


def _build_crop_rules(min_area: int) -> CropRules:
    from caramel.crepe.crops import CropRules

    return CropRules(area=min_area)


def _load_thesaurus(spec: str) -> Thesaurus:
    from caramel.registry import THESAURI

    name, _, target = spec.partition(":")
    return THESAURI[name](target)


def _load_plausibility_scorer(folder: Path | None) -> PlausibilityScorer | None:
    """Return what scores how sensible texts are, by the masked language model of a folder."""
    if folder is None:
        return None
    from caramel.blind.text.text_models import open_model

    model = open_model(kind="masked_lm", target=str(folder))
    return lambda texts: [float(value) for value in model.values(texts)]


def _build_caption_writer(
    spec: str | None, seed: int, max_connections: int, max_requests: int | None
) -> CaptionWriter:
    """Return what writes captions: the template, or a language model."""
    from caramel.crepe.llm_captions import create_caption_writer, write_template_captions
    from caramel.registry import LANGUAGE_MODELS
    from caramel.sources.captions.llm.writer import STORE

    if spec is None:
        return write_template_captions
    family, _, target = spec.partition(":")
    return create_caption_writer(
        LANGUAGE_MODELS[family].load(target, max_connections=max_connections, workers=0),
        STORE,
        seed=seed,
        max_connections=max_connections,
        max_requests=max_requests,
    )


def _print_counts(counts: dict[str, int], reasons: dict[str, int], out: Path) -> None:
    for name, count in counts.items():
        echo(f"{count:10,}  {name}")
    for reason, count in reasons.items():
        echo(f"{count:10,}  left out: {reason}")
    echo(f"{sum(counts.values()):10,}  examples. Written to {out}.")
