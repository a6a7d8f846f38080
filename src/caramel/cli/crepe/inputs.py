"""Define the options, inputs and output that the ``crepe`` commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.options import FOLDER, SEED, Command, collect_options
from caramel.cli.output import echo

if TYPE_CHECKING:
    from caramel.crepe.build import SetCounts, SetSettings

REJECTS = "rejects.csv"
EXISTING = click.Path(exists=True, file_okay=False, path_type=Path)
add_graphs_option = click.option(
    "--graphs",
    required=True,
    type=EXISTING,
    help="Folder with Visual Genome's image_data.json, scene_graphs.json and region_graphs.json.",
)
add_spelling_option = click.option(
    "--correct-spelling",
    is_flag=True,
    help="Correct the spelling of descriptions and graphs first; needs caramel[spelling]. `index` and `systematicity` "
    "must agree.",
)
add_out_option = click.option("--out", required=True, type=FOLDER, help="Folder to write to.")


@dataclass(frozen=True)
class SetOptions:
    """Options that both sets share."""

    graphs: Path
    out: Path
    raw: Path | None
    words: str
    sensible: Path | None
    min_area: int
    seed: int

    def build(self) -> SetSettings:
        """Return them as the library's settings, whose module is slow to import."""
        from caramel.crepe.build import SetSettings

        return SetSettings(**vars(self))


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
        click.option(
            "--raw",
            type=FOLDER,
            help="Folder for all pairs without hard negatives, for plain retrieval (crepe_retrieval).  [default: not "
            "written]",
        ),
        click.option("--seed", default=0, show_default=True, type=SEED, help="Random seed for sampling."),
        add_out_option,
        add_graphs_option,
    ):
        command = option(command)
    return command


def list_input_files(graphs: Path, words: str = "", sensible: Path | None = None) -> list[Path]:
    """Return the files that a command reads, except a corpus and its index."""
    from caramel.crepe.visual_genome_graphs import FILES

    target = words.partition(":")[2]
    return [
        *(graphs / name for name in FILES),
        *([Path(target)] if target else []),
        *([sensible] if sensible else []),
    ]


def print_counts(counts: SetCounts, out: Path) -> None:
    """Print the number of examples in each file, and the number left out for each reason."""
    for name, count in counts.examples.items():
        echo(f"{count:10,}  {name}")
    for reason, count in counts.rejects.items():
        echo(f"{count:10,}  left out: {reason}")
    echo(f"{sum(counts.examples.values()):10,}  examples. Written to {out}.")
