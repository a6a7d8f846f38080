"""Print the output of all commands: text with ``echo``, and with ``--json`` one JSON object."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

import click

from caramel.errors import escape_unprintable, redact_secrets

if TYPE_CHECKING:
    import pandas as pd

_STDOUT = "caramel.stdout"  # in the context of a command with --json: the stream of its JSON object


def echo(text: str, *, err: bool = False) -> None:
    """Print to stdout or stderr; passwords in addresses are hidden, and control characters from data are escaped."""
    click.echo(escape_unprintable(redact_secrets(text)), err=err)


def _reserve_stdout(ctx: click.Context, option: click.Parameter, is_set: bool) -> None:
    """Send whatever is printed during the command to stderr, so that stdout holds the JSON object alone."""
    if is_set:
        ctx.meta[_STDOUT] = ctx.with_resource(_send_prints_to_stderr())


@contextlib.contextmanager
def _send_prints_to_stderr() -> Iterator[TextIO]:
    """Send what is printed to stderr, also by libraries in C such as the solver; give a stream to the true stdout."""
    stdout, stderr = sys.stdout, sys.stderr
    with contextlib.redirect_stdout(stderr):
        try:
            number, other = stdout.fileno(), stderr.fileno()
        except (OSError, ValueError):  # not a file: another program holds the streams in memory
            yield stdout
            return
        stdout.flush()
        original = os.dup(number)
        os.dup2(other, number)
        try:
            with os.fdopen(os.dup(original), "w", encoding="utf-8") as stream:
                yield stream
        finally:
            ctypes.CDLL(None).fflush(None)  # what C still holds was printed before
            os.dup2(original, number)
            os.close(original)


add_json_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_reserve_stdout,
    help="Print the result as one JSON object on stdout, and messages on stderr.",
)


def print_json(values: Mapping[str, Any]) -> None:
    """With ``--json``, print the result of the command, with its name, as one JSON object; else do nothing.

    Args:
        values: JSON-like values; NumPy numbers become numbers, and NaN and infinity become null.
    """
    ctx = click.get_current_context()
    if _STDOUT in ctx.meta:
        plain = _to_plain({"command": ctx.command.name, **values})
        click.echo(json.dumps(plain, indent=2, allow_nan=False), file=ctx.meta[_STDOUT])


def list_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table for ``print_json``."""
    records: list[dict[str, Any]] = frame.to_dict("records")  # type: ignore[assignment]
    return records


def _to_plain(value: Any) -> Any:
    """Return a value as JSON has it; passwords in addresses are hidden."""
    if isinstance(value, Mapping):
        return {redact_secrets(str(key)): _to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    if hasattr(value, "tolist"):  # an array or a number of NumPy
        return _to_plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else redact_secrets(str(value))
