"""Render all pages: of a run, an audit, a study, and a comparison of two versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from caramel.errors import escape_unprintable
from caramel.report.blocks import Section, encode_data_uri

LONGEST = 2000  # characters of one text on a page or in the tables beside it; texts in data are unbounded


def render_page(
    title: str, heading: str, lead: str, sections: Sequence[Section], cards: Sequence[tuple[str, str]] = ()
) -> str:
    """Return a self-contained HTML page: a head, the navigation, and the sections in order.

    Args:
        title: text of the browser's tab.
        heading, lead: text at the top of the page; the lead may come from ``format_markup``.
        sections: in reading order.
        cards: headline figures, (value, label).
    """
    template = _get_template()
    return str(template.render(title=title, heading=heading, lead=lead, sections=sections, cards=cards))


@cache
def _get_template() -> Any:
    """Return the template of all pages, since each new environment compiles it again."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    environment = Environment(
        loader=PackageLoader("caramel.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_format_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["data_uri"] = lambda image: Markup(
        encode_data_uri(image)
    )  # not shortened: it holds no text from data
    # Long names may wrap only after an underscore.
    environment.filters["breakable"] = lambda text: Markup(
        str(escape(_format_value(text))).replace("_", "_<wbr>")
    )
    return environment.get_template("page.html")


def format_markup(markup: str, *values: str) -> str:
    """Return trusted markup with its ``{}`` replaced by escaped values of bounded length."""
    from markupsafe import Markup

    return Markup(markup).format(*map(_format_value, values))


def _format_value(value: Any) -> Any:
    """Return a template value as it is written: at most ``LONGEST`` characters of a text, and markup unchanged.

    Control characters are escaped, because they could reverse the text direction or be invalid HTML.
    """
    return escape_unprintable(shorten_value(value)) if type(value) is str else value


def shorten_value(value: Any) -> Any:
    """Return at most ``LONGEST`` characters of a text with the number of omitted ones.

    Return other values unchanged.
    """
    rest = len(value) - LONGEST if isinstance(value, str) else 0
    return value if rest <= 0 else f"{value[:LONGEST]}… ({rest:,} more characters)"


def shorten_names(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers under shortened names; a duplicate name gets the suffix `` (2)``, and so on."""
    shortened: dict[str, float] = {}
    for name, number in numbers.items():
        short = unique = shorten_value(name)
        count = 1
        while unique in shortened:
            count += 1
            unique = f"{short} ({count})"
        shortened[unique] = number
    return shortened
