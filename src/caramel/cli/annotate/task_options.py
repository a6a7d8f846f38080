"""Define the options of all commands that make a task, and write the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.options import SEED, Command, collect_options
from caramel.cli.output import echo
from caramel.errors import count_of, format_items
from caramel.io.files import forbid_overwriting_inputs

if TYPE_CHECKING:
    from caramel.annotation.items import Item
    from caramel.annotation.making.image_keys import ImageKeys

FILE = click.Path(dir_okay=False, path_type=Path)
add_data_option = click.option(
    "--data",
    default=Path("data"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the stages' outputs.",
)


@dataclass(frozen=True)
class TaskOptions:
    """Options of all commands that make a task."""

    out: Path
    count: int | None
    seed: int
    overlap: int
    shared: int | None
    guideline: Path | None
    gold: Path | None
    gold_every: int
    pass_mark: float
    lease_minutes: float


def add_task_options(command: Command) -> Command:
    """Add the options that all tasks share; the command gets them as ``options: TaskOptions``."""
    command = collect_options(TaskOptions, "options")(command)
    for option in (
        click.option("--lease-minutes", default=10.0, show_default=True, type=click.FloatRange(0, min_open=True),
                     help="Minutes until an item that was given out and not answered goes to somebody else."),
        click.option("--pass-mark", default=0.8, show_default=True, type=click.FloatRange(0, 1),
                     help="Share of the qualification items to answer right."),
        click.option("--gold-every", default=10, show_default=True, type=click.IntRange(1),
                     help="One item in so many, drawn at random, is a gold item."),
        click.option("--gold", type=FILE,
                     help="CSV of known answers: item_id, answer, and role, which is gold or qualification."),
        click.option("--guideline", type=FILE, help="Text file of instructions.  [default: those of the kind of task]"),
        click.option("--shared", type=click.IntRange(0),
                     help="Number of items that get --overlap answers; the others get one.  [default: all]"),
        click.option("--overlap", default=1, show_default=True, type=click.IntRange(1),
                     help="Answers per item, by different annotators."),
        click.option("--seed", default=0, show_default=True, type=SEED, help="Random seed for sampling and order."),
        click.option("--items", "count", type=click.IntRange(1), help="Number of items to sample.  [default: all]"),
        click.option("--out", required=True, type=FILE, help="Task file to write."),
    ):  # fmt: skip
        command = option(command)
    return command


def write_task(
    task: str,
    items: Sequence[Item],
    keys: ImageKeys,
    options: TaskOptions,
    inputs: Sequence[Path] = (),
    *,
    guideline: str | None = None,
) -> None:
    """Write a task file, and print the number of items and what was left out.

    ``guideline`` names the instructions, if they are not those of the kind of task.
    """
    from caramel.annotation.guidelines import read_guideline
    from caramel.annotation.making.preparation import prepare_items
    from caramel.annotation.page_images import TaskImages
    from caramel.annotation.task_file import TaskSettings, create_task_file

    read = [path for path in (*inputs, options.gold, options.guideline) if path is not None]
    forbid_overwriting_inputs([options.out], [*read, *{index for index, _ in keys.images.values()}])
    prepared = prepare_items(
        items,
        count=options.count,
        seed=options.seed,
        gold=options.gold,
        read_image=TaskImages(keys.images.get).read,
    )
    settings = TaskSettings(
        task=task,
        guideline=read_guideline(guideline or task, options.guideline),
        seed=options.seed,
        overlap=options.overlap,
        shared=options.shared,
        lease_minutes=options.lease_minutes,
        gold_every=options.gold_every,
        pass_mark=options.pass_mark,
    )
    create_task_file(options.out, settings, prepared.items, keys.images, prepared.roles)
    if prepared.broken:
        echo(f"{count_of(len(prepared.broken), 'item')} left out:\n{format_items(prepared.broken)}", err=True)
    gold = [*prepared.roles.values()].count("gold")
    if gold:
        _echo_gold_share(gold, len(prepared.items) - len(prepared.roles), options.gold_every)
    known = f", {len(prepared.roles)} of them with known answers" if prepared.roles else ""
    echo(
        f"{count_of(len(prepared.items), 'item')}{known}. Written to {options.out}. Serve it: caramel annotate {options.out}"
    )


def _echo_gold_share(gold: int, items: int, gold_every: int) -> None:
    """Print how many gold items annotators meet, and warn if nobody can meet all."""
    enough = gold * max(
        1, gold_every - 1
    )  # items that an annotator judges until all gold items were mixed in
    if enough <= items:
        echo(f"An annotator meets all {gold} gold items within about {enough} items.", err=True)
    else:
        echo(
            f"The task has {items} items: whoever judges all of them meets about {items // max(1, gold_every - 1)} of the "
            f"{gold} gold items. Give fewer gold items, or a smaller --gold-every.",
            err=True,
        )
