"""Define the options, inputs and output that the ``crepe`` commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from caramel.cli.options import FOLDER, SEED, Command, collect_options
from caramel.cli.output import echo

if TYPE_CHECKING:
    from caramel.crepe.crops import CropRules
    from caramel.crepe.example_files import PlausibilityScorer
    from caramel.interfaces.scene_graph import Atom, Thesaurus

REJECTS = "rejects.csv"
EXISTING = click.Path(exists=True, file_okay=False, path_type=Path)
add_graphs_option = click.option(
    "--graphs",
    required=True,
    type=EXISTING,
    help="Folder with Visual Genome's image_data.json, scene_graphs.json and region_graphs.json.",
)
add_out_option = click.option("--out", required=True, type=FOLDER, help="Folder to write to.")


@dataclass(frozen=True)
class SetOptions:
    """Options that both sets share."""

    graphs: Path
    out: Path
    words: str
    sensible: Path | None
    min_area: int
    seed: int


def add_set_options(command: Command) -> Command:
    """Add the options of both sets; the command gets them as ``settings: SetOptions``."""
    command = collect_options(SetOptions, "settings")(command)
    for option in (
        click.option(
            "--words",
            required=True,
            help="Thesaurus of words that exclude each other: wordnet:FOLDER with WordNet's database files, or lists, a few "
            "hundred words that come with caramel.",
        ),
        click.option(
            "--sensible",
            type=EXISTING,
            help="Folder of a masked language model, such as BERT, that picks the most plausible negatives.  [default: "
            "random negatives]",
        ),
        click.option(
            "--min-area",
            default=40_000,
            show_default=True,
            type=click.IntRange(0),
            help="Smallest area of an image crop in pixels; 40,000 is the published value.",
        ),
        click.option("--seed", default=0, show_default=True, type=SEED, help="Random seed for sampling."),
        add_out_option,
        add_graphs_option,
    ):
        command = option(command)
    return command


def iter_regions(graphs: Path, reject: Callable[[Any], object], rules: CropRules | None = None) -> Any:
    """Yield the regions of the scene graphs with one compound; ``reject`` receives the others."""
    from caramel.crepe.crops import CropRules
    from caramel.crepe.systematicity import iter_region_examples
    from caramel.crepe.visual_genome_graphs import iter_image_graphs

    return iter_region_examples(
        iter_image_graphs(graphs, reject, regions=True), reject, rules or CropRules(area=0)
    )


def list_input_files(graphs: Path, words: str = "", sensible: Path | None = None) -> list[Path]:
    """Return the files that a command reads, except a corpus and its index."""
    from caramel.crepe.visual_genome_graphs import FILES

    target = words.partition(":")[2]
    return [
        *(graphs / name for name in FILES),
        *([Path(target)] if target else []),
        *([sensible] if sensible else []),
    ]


def build_crop_rules(min_area: int) -> CropRules:
    """Return the rules for crops of at least ``min_area`` pixels."""
    from caramel.crepe.crops import CropRules

    return CropRules(area=min_area)


def load_thesaurus(spec: str, read_atoms: Callable[[], frozenset[Atom]]) -> Thesaurus:
    """Return the thesaurus that ``--words`` names; ``read_atoms`` returns the words of the corpus."""
    from caramel.registry import THESAURI

    name, _, target = spec.partition(":")
    return THESAURI[name](target, read_atoms)


def list_graph_atoms(graphs: Path) -> frozenset[Atom]:
    """Return the words of the scene graphs."""
    from caramel.crepe.visual_genome_graphs import iter_image_graphs

    images = iter_image_graphs(graphs, lambda row: None, regions=False)
    return frozenset(atom for image in images for atom in image.graph.list_atoms())


def load_plausibility_scorer(folder: Path | None) -> PlausibilityScorer | None:
    """Return a function that scores the plausibility of texts with a masked language model; None without a folder."""
    if folder is None:
        return None
    from caramel.blind.text.text_models import open_model

    model = open_model(model_type="masked_lm", target=str(folder))
    return lambda texts: [float(value) for value in model.values(texts)]


def print_counts(counts: dict[str, int], reasons: dict[str, int], out: Path) -> None:
    """Print the number of examples in each file, and the number left out for each reason."""
    for name, count in counts.items():
        echo(f"{count:10,}  {name}")
    for reason, count in reasons.items():
        echo(f"{count:10,}  left out: {reason}")
    echo(f"{sum(counts.values()):10,}  examples. Written to {out}.")
