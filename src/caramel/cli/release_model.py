"""Command ``release-model``: write a trained model as a folder to upload."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import FOLDER
from caramel.cli.output import echo
from caramel.cli.push import add_push_options, is_release_of, open_repository, push_or_report
from caramel.errors import count_of


@click.command("release-model")
@click.argument("run")
@click.option("--out", required=True, type=FOLDER, help="Folder to write to: a new or empty one.")
@click.option(
    "--pin", help="Version that the model was trained on; needed if several pins contain its weights."
)
@click.option(
    "--about",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file with the licence.  [default: release.yaml, if it exists]",
)
@add_push_options("hf://OWNER/NAME")
def release_trained_model(
    run: str, out: Path, pin: str | None, about: Path | None, push: str | None, yes: bool
) -> None:
    """Write a trained model as a folder that open_clip loads.

    RUN is the model's name in the tables of results. The folder has weights, config, tokenizer and a model card: the
    pinned data that the model was trained on, method and parameters, its results with intervals, and what fine-tuning
    lost. transformers also loads it, if it has the same architecture. Before the folder appears, the embeddings of both
    libraries are compared with the run's own.

    \b
    Example:
      caramel release-model trohn_img-11 --out release/trohn_img
      caramel release-model trohn_img-11 --out release/trohn_img --push hf://OWNER/NAME --yes
    """
    from caramel.models.open_clip.checkpoints import CARD
    from caramel.release.publishing.build import hash_options
    from caramel.release.publishing_models.model_release import find_checkpoint, release_model

    repository = open_repository(push, yes, "model")
    if repository is None or not is_release_of(
        out, CARD, find_checkpoint(run, Path())[0] / CARD, hash_options(Path(), about, pin=pin)
    ):
        result = release_model(run, Path(), out=out, pin=pin, about=about)
        also = "and transformers" if result.transformers else f"; not transformers: {result.why_not}"
        echo(
            f"Model {run}: {count_of(len(result.files), 'file')} in {str(out)!r}, for open_clip {also}.".replace(
                " ;", ";"
            )
        )
    if repository is not None:
        push_or_report(out, repository, yes, f"Model {run}")
