"""Commands that make of a pinned version, and of a model, what is uploaded: release, release-model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.options import FOLDER
from caramel.cli.output import echo
from caramel.errors import format_items

if TYPE_CHECKING:
    import pandas as pd

TEXTS = [
    "pair_id",
    "image_id",
    "type",
    "subtype",
    "caption",
    "caption2",
    "negative_caption",
]  # that are attacked


@click.command()
@click.argument("name", metavar="PIN")
@click.option("--out", required=True, type=FOLDER, help="Folder to write to: a new or an empty one.")
@click.option(
    "--about",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file of what only people can say: authors, licences, answers.  [default: release.yaml, where there is one]",
)
@click.option("--strict", is_flag=True, help="Refuse a release of which something is not said.")
@click.option("--since", metavar="PIN", help="Earlier version: CHANGES.md says how this one differs from it.")
@click.option(
    "--audit/--no-audit",
    "audited",
    default=True,
    show_default=True,
    help="Whether blind scorers attack the texts of the test split, as `caramel audit` has them do.",
)
def release(name: str, out: Path, about: Path | None, strict: bool, since: str | None, audited: bool) -> None:
    """Write the pinned version PIN as a folder that can be uploaded as it is.

    It has Parquet with pictures that `datasets` loads, the files of SugarCrepe, SugarCrepe++ and BiVLC, WebDataset
    tars of the training set, README.md with the hub's header, croissant.json, DATASHEET.md, citations, an audit and
    SHA256SUMS. The same pin gives the same bytes. docs/release.md has what is in it, and the fields of release.yaml.

    \b
    Example:
      caramel release v1.0 --out release/v1.0
      caramel release v1.1 --out release/v1.1 --since v1.0 --strict
    """
    from caramel.release.publishing.build import build_release as write

    add = _write_audit if audited else None
    result = write(name, Path(), out=out, about=about, strict=strict, since=since, add=add)
    echo(f"Version {name}: {len(result.files)} files, {result.bytes / 2**20:,.1f} MiB, in {str(out)!r}.")
    if result.open:
        echo(f"Not finished, {len(result.open)} points are open:\n{format_items(result.open, 100)}", err=True)


def _write_audit(instances: pd.DataFrame, folder: Path) -> None:
    """Write what blind scorers that need no model make of the texts: audit.json, audit.html, the badge and both tables."""
    from caramel.audit.dataset import audit_data_set, clear_timings
    from caramel.audit.files.inputs import read_frame
    from caramel.audit.output import write_audit
    from caramel.blind.scorer_specs import list_default_scorers
    from caramel.blind.text.attack import has_enough_images
    from caramel.report.audit_page import write_page

    rows = read_frame(instances.rename(columns={"instance_id": "pair_id"})[TEXTS])
    if not has_enough_images(rows.rows):
        echo("No audit: no type has images enough to learn from.", err=True)
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


@click.command(name="release-model")
@click.argument("run")
@click.option("--out", required=True, type=FOLDER, help="Folder to write to: a new or an empty one.")
@click.option("--pin", help="Version that it was trained on, where several pins name its weights.")
@click.option(
    "--about",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file with the licence.  [default: release.yaml, where there is one]",
)
def release_model(run: str, out: Path, pin: str | None, about: Path | None) -> None:
    """Write the model of RUN, as the tables of results call it, as a folder that open_clip loads.

    It has weights, config, tokenizer and a card: the pinned data that it was trained on, method and parameters, its figures with
    intervals, what fine-tuning lost. transformers loads it, too, where it has the same architecture. Before the folder
    appears, its vectors by either library are compared with the run's own.

    \b
    Example:
      caramel release-model trohn_img-11 --out release/trohn_img
    """
    from caramel.release.publishing_models.model_release import release_model as write

    result = write(run, Path(), out=out, pin=pin, about=about)
    also = "and transformers" if result.transformers else f"; not transformers: {result.why_not}"
    echo(f"Model {run}: {len(result.files)} files in {str(out)!r}, for open_clip {also}.".replace(" ;", ";"))


@click.command()
@click.argument("run")
@click.option("--name", required=True, help="Of the model in the registry.")
@click.option("--pin", help="Version that it was trained on, where several pins name its weights.")
def register(run: str, name: str, pin: str | None) -> None:
    """Put the model of RUN, as the tables of results call it, into MLflow's registry, under its tracked run.

    Its version has the pin of its data as an alias, and is loaded by that: `caramel eval --model models:/NAME@ALIAS`, or
    mlflow.pyfunc.load_model. Called again, it says the version that there is.

    \b
    Example:
      caramel register trohn_img-11 --name trohn
      caramel eval --model models:/trohn/1 --benchmark sugarcrepe --data benchmarks/ --out results/trohn
    """
    from caramel.release.publishing_models.model_registry import register_model as put

    result = put(run, Path(), name=name, pin=pin)
    echo(
        f"Model {run} is version {result.version} of {name!r}: models:/{name}/{result.version}, models:/{name}@{result.alias}"
    )
