"""Command ``register``: add a trained model to MLflow's registry."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.output import echo


@click.command("register")
@click.argument("run")
@click.option("--name", required=True, help="Name of the model in the registry.")
@click.option(
    "--pin", help="Version that the model was trained on; needed if several pins contain its weights."
)
def register_trained_model(run: str, name: str, pin: str | None) -> None:
    """Add a trained model to MLflow's registry.

    RUN is the model's name in the tables of results. The model is registered under its tracked run, and its version has
    the pin of its data as an alias. `caramel eval --model models:/NAME@ALIAS` and mlflow.pyfunc.load_model load it. A
    second call prints the version that exists.

    \b
    Example:
      caramel register trohn_img-11 --name trohn
      caramel eval --model models:/trohn/1 --benchmark sugarcrepe --data benchmarks/ --out results/trohn
    """
    from caramel.release.publishing_models.model_registry import register_model

    result = register_model(run, Path(), name=name, pin=pin)
    echo(
        f"Model {run} is version {result.version} of {name!r}: models:/{name}/{result.version}, models:/{name}@{result.alias}"
    )
