"""Command ``release``: write a pinned version as a folder to upload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.options import FOLDER
from caramel.cli.output import echo
from caramel.cli.push import add_push_options, is_release_of, open_repository, push_or_report
from caramel.errors import count_of, format_items

if TYPE_CHECKING:
    import pandas as pd

# columns that the audit reads
TEXTS = ["pair_id", "image_id", "type", "subtype", "caption", "caption2", "negative_caption"]


@click.command("release")
@click.argument("name", metavar="PIN")
@click.option("--out", required=True, type=FOLDER, help="Folder to write to: a new or empty one.")
@click.option(
    "--about",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file with what you must supply: authors, licences, answers.  [default: release.yaml, if it exists]",
)
@click.option("--strict", is_flag=True, help="Refuse a release with open questions.")
@click.option(
    "--since", metavar="PIN", help="Earlier version; CHANGES.md says how this version differs from it."
)
@click.option(
    "--audit/--no-audit",
    "audited",
    default=True,
    show_default=True,
    help="Audit the texts of the test split with blind scorers, as `caramel audit` does.",
)
@add_push_options("hf://datasets/OWNER/NAME")
def release_version(
    name: str,
    out: Path,
    about: Path | None,
    strict: bool,
    since: str | None,
    audited: bool,
    push: str | None,
    yes: bool,
) -> None:
    """Write a pinned version as a folder that is ready to upload.

    The folder has Parquet files with images that `datasets` loads, the files of SugarCrepe, SugarCrepe++ and BiVLC,
    WebDataset tars of the training set, README.md with the hub's header, croissant.json, DATASHEET.md, citations, an
    audit and SHA256SUMS. Equal pins and lock files give equal bytes. docs/release.md describes the files and the fields of
    release.yaml.

    \b
    Example:
      caramel release v1.0 --out release/v1.0
      caramel release v1.1 --out release/v1.1 --since v1.0 --strict
      caramel release v1.1 --out release/v1.1 --push hf://datasets/OWNER/NAME --yes
    """
    from caramel.release.pin_file import get_pin_path
    from caramel.release.publishing.build import build_release, hash_options

    repository = open_repository(push, yes, "dataset")
    if repository is None or not is_release_of(
        out,
        "pin.json",
        get_pin_path(name, Path()),
        hash_options(Path(), about, since=since, audit=audited),
        strict=strict,
    ):
        add = _write_audit if audited else None
        result = build_release(name, Path(), out=out, about=about, strict=strict, since=since, add=add)
        echo(
            f"Version {name}: {count_of(len(result.files), 'file')}, {result.bytes / 2**20:,.1f} MiB, in {str(out)!r}."
        )
        if result.open:
            echo(
                f"Not finished, {len(result.open)} points are open:\n{format_items(result.open, 100)}",
                err=True,
            )
    if repository is not None:
        push_or_report(out, repository, yes, f"Version {name}")


def _write_audit(instances: pd.DataFrame, folder: Path) -> None:
    """Audit the texts with blind scorers that need no model; write audit.json, audit.html, the badge and both tables."""
    from caramel.audit.dataset import audit_data_set, clear_timings
    from caramel.audit.files.inputs import read_frame
    from caramel.audit.output import write_audit
    from caramel.blind.scorer_specs import list_default_scorers
    from caramel.blind.text.attack import has_enough_images
    from caramel.report.audit_page import write_page

    rows = read_frame(instances.rename(columns={"instance_id": "pair_id"})[TEXTS])
    if not has_enough_images(rows.rows):
        echo("No audit: no type has enough images to train on.", err=True)
        return
    result = audit_data_set(
        rows,
        scorers=list_default_scorers(),
        folds=5,
        seed=3,
        name="test split",
        corpus=None,
        sources=[],
        training=None,
    )
    write_audit(clear_timings(result), folder / "audit")
    write_page(folder / "audit")
