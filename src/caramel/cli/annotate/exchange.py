"""Commands ``annotate export`` and ``annotate import``: have items judged elsewhere."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import click

from caramel.cli.output import echo
from caramel.errors import ConfigError, count_of
from caramel.io.files import forbid_overwriting_inputs

TASK = click.Path(path_type=Path)


class PartType(click.ParamType[tuple[int, int]]):
    """A part K/N: two whole numbers, 1 ≤ K ≤ N."""

    name = "K/N"

    def convert(
        self, value: str | tuple[int, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return (K, N)."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})", value)
        if match is None or int(match[1]) > int(match[2]):
            self.fail(f"{value!r} is no part such as 2/5: the second of five.", param, ctx)
        return int(match[1]), int(match[2])


@click.command("export")
@click.argument("task", type=TASK)
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Choice(["label-studio", "csv", "html"]),
    help="Label Studio's JSON, CSV with image files, or one page that needs no server.",
)
@click.option("--out", required=True, type=TASK, help="Folder to write to; with html, the file.")
@click.option("--annotator", help="Pseudonym of the annotator, who the page is for; with html.")
@click.option(
    "--part",
    type=PartType(),
    default=(1, 1),
    help="Only the K-th of N parts of the items, so that each part goes to other annotators.  [default: all items]",
)
def export_task(task: Path, target: str, out: Path, annotator: str | None, part: tuple[int, int]) -> None:
    """Write a task for annotators elsewhere.

    Items for qualification are left out. Expected answers are not written. Whoever gets a part answers all of its items:
    the number of answers per item (`--overlap`) is the number of people to whom you give the part. `caramel annotate import` reads what comes
    back: Label Studio's JSON export, the CSV with its columns filled in, or the JSON file that the page saves.

    \b
    Example:
      caramel annotate export choose.db --to html --annotator a07 --part 1/5 --out a07.html
      caramel annotate export choose.db --to label-studio --out label_studio/
    """
    from caramel.annotation.accounts import check_pseudonym
    from caramel.annotation.exchange.csv_files import write_csv_folder
    from caramel.annotation.exchange.html_page import write_page
    from caramel.annotation.exchange.label_studio import write_label_studio
    from caramel.annotation.page_images import TaskImages
    from caramel.annotation.store import AnswerStore

    if (annotator is None) is (target == "html"):
        raise ConfigError(
            "--annotator is needed with --to html, and only there: each page is for one annotator."
        )
    forbid_overwriting_inputs([out], [task])
    with closing(AnswerStore(task)) as store:
        number, parts = part
        items = store.list_exported_items()[number - 1 :: parts]
        if not items:
            raise ConfigError(f"--part {number}/{parts}: the task has fewer than {parts} items.")
        read_image = TaskImages(store.locate_image).read
        if annotator is not None:
            write_page(out, store.settings, items, check_pseudonym(annotator, "--annotator"), read_image)
        elif target == "csv":
            write_csv_folder(out, store.settings, items, read_image)
        else:
            write_label_studio(out, store.settings, items, read_image)
    echo(f"{count_of(len(items), 'item')}. Written to {out}.")


@click.command("import")
@click.argument("task", type=TASK)
@click.argument("files", nargs=-1, required=True, type=TASK)
def import_task_answers(task: Path, files: tuple[Path, ...]) -> None:
    """Add answers that were given elsewhere to a task.

    FILES are JSON files that pages saved, CSV files, or Label Studio's JSON exports. A file of another task, or of another
    version of the instructions, is an error. Of each file all answers are added, or none. A second import adds nothing.

    \b
    Example:
      caramel annotate import choose.db a07.answers.json
    """
    from caramel.annotation.exchange.importing import import_answers
    from caramel.annotation.store import AnswerStore

    with closing(AnswerStore(task)) as store:
        for path in files:
            new, total = import_answers(store, path)
            echo(f"{path}: {new} new answers of {total}.")
