"""Mutations of the arguments of a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from hypothesis import strategies as st
from specials import ARGUMENTS

from caramel.cli.commands import cli

Draw = Callable[[st.SearchStrategy[Any]], Any]
ODD = (
    "", " ", "-1", "0", "1", "2", "0.5", "1.5", "-0.0", "nan", "inf", "-inf", "1e999", "1e-320", "9" * 12, "9" * 400, "9" * 5000, "²", "١",
    "é", "🙂", "\u202e", "\udc80", "\x1b[31m", "a\nb", ",", ",,", "a,b", "=", "::", "a::b", ":", "a:b", "x" * 300, "x" * 5000, "<b>x</b>",
    ".", "..", "../new", "data", "data/new/deep", "out", "nowhere", "@FILE@", "@FILE@/x", "/dev/null", "/dev/null/x", "/proc/nope", "~",
    "--", "-h", "length", "probe", "all", "sugarcrepe", "SugarCrepe", "blind:length", "blind:nothing", "given:data", "given:", "world",
    "open_clip:nowhere", "text:data", "dual:data", "itm:data", "itc:data", "vqascore:data", "chat:m@http://127.0.0.1:9/v1", "chat:m", "x=blind:length",
    "null", "{}", "[]", *ARGUMENTS, "%s", "{0}", "*", "?", "$HOME", "'", '"', "\\",
)  # fmt: skip


def mutate_arguments(draw: Draw, arguments: list[str], file: str) -> list[str]:
    """Return the arguments with one of them changed, added, doubled or left out; ``@FILE@`` is a file of the input."""
    known = _options(arguments)
    kind = draw(
        st.sampled_from(("value", "value", "value", "add", "add", "drop", "double", "positional", "unknown"))
    )
    places = [n for n, word in enumerate(arguments) if n and arguments[n - 1].startswith("--")]
    new = draw(st.sampled_from(ODD)).replace("@FILE@", file)
    found = list(arguments)
    if kind == "value" and places:
        found[draw(st.sampled_from(places))] = new
    elif kind == "add" and known:
        option = draw(st.sampled_from(known))
        found += [option.opts[0]] if option.is_flag else [option.opts[0], _valid(draw, option, new)]
    elif kind == "drop" and len(found) > 1:
        del found[draw(st.integers(1, len(found) - 1))]
    elif kind == "double" and len(found) > 1:
        at = draw(st.integers(1, len(found) - 1))
        found[at:at] = found[at : at + 2]
    elif kind == "unknown":
        found.append(f"--{draw(st.sampled_from(('x', 'out-', 'Out', '', 'seed=')))}")
    else:
        found.append(new)
    return found


def _valid(draw: Draw, option: click.Option, odd: str) -> str:
    """Return an odd value, or one of the choices; never Ray, which takes seconds to start."""
    if isinstance(option.type, click.Choice) and draw(st.booleans()):
        return str(draw(st.sampled_from([choice for choice in option.type.choices if choice != "ray"])))
    return odd


def _options(arguments: list[str]) -> list[click.Option]:
    """Return the options of the command that the arguments name, within its group; without the one that downloads."""
    command: click.Command | None = cli
    for word in arguments:
        if not isinstance(command, click.Group):
            break
        command = command.commands.get(word)
    options = [p for p in command.params if isinstance(p, click.Option)] if command else []
    return [option for option in options if "--fetch" not in option.opts]
