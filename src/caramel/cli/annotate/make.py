"""Commands ``annotate make``: make task files from the project's tables. One command per kind of task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.annotate.task_options import TaskOptions, add_data_option, add_task_options, write_task

if TYPE_CHECKING:
    import pandas as pd

TABLE = click.Path(path_type=Path)


@click.group("make")
def make_group() -> None:
    """Make a task for annotators.

    Each kind of task reads the tables that the project's stages wrote.

    \b
    Example:
      caramel annotate make choose --out choose.db --overlap 2 --shared 500
      caramel annotate make baseline --out baseline.db --items 500
    """


@make_group.command("choose")
@click.option(
    "--candidates",
    default=Path("data/synthesize"),
    show_default=True,
    type=TABLE,
    help="Folder of the candidates.",
)
@add_task_options
def make_choose_task(candidates: Path, options: TaskOptions) -> None:
    """The best of the drawn images of a caption, or none.

    Items are named by negative_id; answers are numbers of candidates, or none.

    \b
    Example:
      caramel annotate make choose --out choose.db --overlap 2 --shared 500
    """
    from caramel.annotation.making.image_keys import ImageKeys
    from caramel.annotation.making.image_tasks import build_choose_items
    from caramel.schemas.candidates import CANDIDATES
    from caramel.schemas.io import read_table

    keys = ImageKeys()
    rows = read_table(CANDIDATES, candidates / "candidates.parquet")
    write_task("choose", build_choose_items(rows, candidates / "images.parquet", keys.add), keys, options)


@make_group.command("fits")
@click.option(
    "--chosen",
    type=TABLE,
    help="Decisions on `choose` by `caramel annotate decide`.  [default: the choices of stage filter_images]",
)
@add_data_option
@add_task_options
def make_fits_task(chosen: Path | None, data: Path, options: TaskOptions) -> None:
    """Which of two images fits the original caption, both or neither.

    Finds ambiguous instances: those where people do not choose the positive image. Items are named by negative_id;
    answers are positive, negative, both or neither.

    \b
    Example:
      caramel annotate make fits --out fits.db
    """
    from caramel.annotation.making.chosen_images import list_chosen_images
    from caramel.annotation.making.image_keys import ImageKeys
    from caramel.annotation.making.image_tasks import build_fits_items
    from caramel.schemas.io import read_table
    from caramel.schemas.pairs import PAIRS

    keys = ImageKeys()
    items = build_fits_items(
        list_chosen_images(data, chosen),
        read_table(PAIRS, data / "refine/pairs.parquet"),
        source=data / "scenes/images.parquet",
        drawn=data / "synthesize/images.parquet",
        put_image=keys.add,
    )
    write_task("fits", items, keys, options)


@make_group.command("true")
@click.option(
    "--captions",
    multiple=True,
    type=click.Choice(["positive", "negative", "paraphrase"]),
    default=("positive", "negative"),
    show_default=True,
    help="Captions to ask about, repeatable.",
)
@add_data_option
@add_task_options
def make_true_task(captions: tuple[str, ...], data: Path, options: TaskOptions) -> None:
    """Whether a caption is true of its image.

    Items are named by pair_id, by negative_id, and by pair_id with `:paraphrase`; answers are yes or no.

    \b
    Example:
      caramel annotate make true --captions positive --items 200 --out true.db
    """
    import pandas as pd

    from caramel.annotation.making.image_keys import ImageKeys
    from caramel.annotation.making.image_tasks import build_true_items

    keys = ImageKeys()
    rows = pd.concat([_read_captions(data, which) for which in dict.fromkeys(captions)], ignore_index=True)
    write_task("true", build_true_items(rows, data / "scenes/images.parquet", keys.add), keys, options)


@make_group.command("crepe")
@click.option(
    "--images",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the Visual Genome images.",
)
@click.option(
    "--per-cell",
    default=20,
    show_default=True,
    type=click.IntRange(1),
    help="Texts of each set, number of atoms or split, and type, captions being a type.",
)
@add_data_option
@add_task_options
def make_crepe_task(images: Path, per_cell: int, data: Path, options: TaskOptions) -> None:
    """Whether captions and hard negatives of CREPE sets are true.

    Reads crepe_systematicity and crepe_productivity in --data, and writes the regions of the images beside the task
    file. Nothing shows annotators which texts are hard negatives. Answers are yes or no; `caramel crepe figures
    --answers` makes the paper's tables 4 and 7 of them.

    \b
    Example:
      caramel annotate make crepe --data data/ --images vg/ --overlap 2 --out crepe.db
    """
    import pandas as pd

    from caramel.annotation.making.image_keys import ImageKeys
    from caramel.annotation.making.image_tasks import build_true_items
    from caramel.cli.output import echo
    from caramel.crepe.verification_sample import sample_statements, write_crops
    from caramel.errors import ConfigError

    if options.out.exists():  # before its images are replaced
        raise ConfigError(
            f"{str(options.out)!r} exists, and may hold answers. Give another path, or remove it."
        )
    statements, notes = sample_statements(data, images, per_cell=per_cell, seed=options.seed)
    for note in notes:
        echo(note, err=True)
    index = options.out.with_name(f"{options.out.stem}_images.parquet")
    names = write_crops(index, statements)
    rows = pd.DataFrame(
        {"item_id": one.statement_id, "caption": one.text, "image_id": names[one.image]} for one in statements
    )
    keys = ImageKeys()
    write_task("true", build_true_items(rows, index, keys.add), keys, options, guideline="crepe")


@make_group.command("baseline")
@add_data_option
@add_task_options
def make_baseline_task(data: Path, options: TaskOptions) -> None:
    """The four retrieval questions of an instance: the human baseline.

    Items are named by instance_id. The right answers are known, and stand in column gold of the answers.

    \b
    Example:
      caramel annotate make baseline --items 500 --out baseline.db
    """
    from caramel.annotation.making.image_keys import ImageKeys
    from caramel.annotation.making.image_tasks import build_baseline_items
    from caramel.schemas.instances import INSTANCES
    from caramel.schemas.io import read_table

    keys = ImageKeys()
    instances = read_table(INSTANCES, data / "assemble/instances.parquet")
    items = build_baseline_items(instances, data / "assemble/images.parquet", keys.add)
    write_task("baseline", items, keys, options)


@make_group.command("compare")
@click.argument("first", type=TABLE)
@click.argument("second", type=TABLE)
@click.option(
    "--per-type",
    type=click.IntRange(1),
    help="Items per type of negative; 100 is the published value.  [default: all]",
)
@add_task_options
def make_compare_task(first: Path, second: Path, per_type: int | None, options: TaskOptions) -> None:
    """Which of two negatives of a caption is more plausible, more grammatical.

    FIRST and SECOND are data sets that `caramel audit` reads, with negatives of the same captions and types. Items are
    named by both ids; answers are first or second.

    \b
    Example:
      caramel annotate make compare sugarcrepe/ aro.csv --per-type 100 --out compare.db
    """
    from caramel.annotation.making.image_keys import ImageKeys
    from caramel.annotation.making.text_tasks import build_compare_items

    rows = [_read_negatives(path) for path in (first, second)]
    items = build_compare_items(*rows, per_type=per_type, seed=options.seed)
    write_task("compare", items, ImageKeys(), options, inputs=[first, second])


@make_group.command("correct")
@add_data_option
@add_task_options
def make_correct_task(data: Path, options: TaskOptions) -> None:
    """Correct a paraphrase.

    The paraphrases are those that stage negatives wrote, with negatives.paraphrases or negatives.backend set to a writer.
    Items are named by pair_id; answers are the corrected captions. Two experts are asked with `--overlap 2`.

    \b
    Example:
      caramel annotate make correct --overlap 2 --out correct.db
    """
    from caramel.annotation.making.image_keys import ImageKeys
    from caramel.annotation.making.text_tasks import build_correct_items
    from caramel.schemas.io import read_table
    from caramel.schemas.negatives import PARAPHRASES
    from caramel.schemas.pairs import PAIRS

    paraphrases = read_table(PARAPHRASES, data / "negatives/paraphrases.parquet")
    items = build_correct_items(paraphrases, read_table(PAIRS, data / "scenes/pairs.parquet"))
    write_task("correct", items, ImageKeys(), options)


@make_group.command("resolve")
@click.argument("answers", type=TABLE)
@add_data_option
@add_task_options
def make_resolve_task(answers: Path, data: Path, options: TaskOptions) -> None:
    """Decide where two people corrected a paraphrase differently.

    ANSWERS are those to `correct`. The differing words are marked.

    \b
    Example:
      caramel annotate make resolve answers.parquet --out resolve.db
    """
    from caramel.annotation.agreement.answers import select_judged
    from caramel.annotation.making.image_keys import ImageKeys
    from caramel.annotation.making.text_tasks import build_resolve_items
    from caramel.schemas.annotation import ANNOTATIONS
    from caramel.schemas.io import read_table
    from caramel.schemas.pairs import PAIRS

    corrections = select_judged(read_table(ANNOTATIONS, answers))
    items = build_resolve_items(corrections, read_table(PAIRS, data / "scenes/pairs.parquet"))
    write_task("resolve", items, ImageKeys(), options, inputs=[answers])


def _read_captions(data: Path, which: str) -> pd.DataFrame:
    """Return item_id, caption and image_id of the positives, negatives or paraphrases of a project."""
    from caramel.schemas.io import read_table
    from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
    from caramel.schemas.pairs import PAIRS

    pairs = read_table(PAIRS, data / "refine/pairs.parquet")[["pair_id", "image_id", "caption"]]
    if which == "positive":
        return pairs.rename(columns={"pair_id": "item_id"})
    if which == "negative":
        rows = read_table(NEGATIVES, data / "refine/negatives.parquet")
        rows = rows.assign(item_id=rows["negative_id"], caption=rows["negative_caption"])
    else:
        rows = read_table(PARAPHRASES, data / "refine/paraphrases.parquet")
        rows = rows.assign(item_id=rows["pair_id"] + ":paraphrase", caption=rows["caption2"])
    images = pairs.set_index("pair_id")["image_id"]
    rows = rows[rows["pair_id"].isin(images.index)]
    return rows.assign(image_id=rows["pair_id"].map(images))[["item_id", "caption", "image_id"]]


def _read_negatives(path: Path) -> pd.DataFrame:
    """Return id, caption, type and negative_caption of a data set."""
    from caramel.audit.files.inputs import read_rows

    rows = read_rows(path).rows
    return rows.rename(columns={"pair_id": "id"})[["id", "caption", "type", "negative_caption"]]
