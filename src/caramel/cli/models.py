"""Command ``models``: list checkpoints of the field."""

from __future__ import annotations

import click

from caramel.cli.output import add_json_option, echo, print_json

ACTIVATIONS = {True: "QuickGELU", False: "GELU", None: "–"}


@click.command("models")
@click.option(
    "--family", metavar="NAME", help="Only those that a family loads; `caramel eval --help` lists families."
)
@click.option("--min-size", type=click.IntRange(1), help="Smallest size in millions of parameters.")
@click.option("--max-size", type=click.IntRange(1), help="Largest size in millions of parameters.")
@add_json_option
def list_models(family: str | None, min_size: int | None, max_size: int | None) -> None:
    """List checkpoints of the field that caramel can score.

    Prints the spec for `caramel eval --model`, the size in millions of parameters, the licence, the activation of CLIPs
    and the source. {checkpoints} in a spec is the folder of a file that you download from the source. A dash means that
    it is not known, or not confirmed. The rosters of `caramel reproduce` use this list.

    \b
    Example:
      caramel models --family open_clip --max-size 200
      caramel models --family text --json
    """
    from caramel.registry import FAMILIES
    from caramel.report.reproduction.checkpoints import select_checkpoints

    if family is not None:
        FAMILIES.get_target(family)
    selected, unknown = select_checkpoints(family, min_size, max_size)
    lines = [("spec", "size", "licence", "activation", "source")]
    lines += [
        (spec, str(item.params or "–"), item.licence or "–", ACTIVATIONS[item.quick_gelu], item.source)
        for spec, item in selected.items()
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if unknown:
        echo(f"{unknown} of unknown size are left out.", err=True)
    print_json({"models": [{"spec": spec, **item.model_dump()} for spec, item in selected.items()]})
