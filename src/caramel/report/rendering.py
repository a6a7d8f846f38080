"""The one builder of pages: of a run, an audit, a study, and of how two versions differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from caramel.errors import escape_unprintable
from caramel.report.blocks import Section, encode_data_uri

LONGEST = 2000  # characters of one text on a page or in the tables beside it; what data may hold has no bound


def render_page(
    title: str, heading: str, lead: str, sections: Sequence[Section], cards: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the HTML page, which stands alone: a head, the navigation, the sections one after the other.

    Args:
        title: what a browser's tab shows.
        heading, lead: text at the top of the page; the lead may come from ``format_markup``.
        sections: in reading order.
        cards: headline figures, (value, label).
    """
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
    environment.filters["data_uri"] = lambda image: Markup(encode_data_uri(image))  # whole: no text of data
    # Long names may wrap after an underscore, and nowhere else.
    environment.filters["breakable"] = lambda text: Markup(
        str(escape(_format_value(text))).replace("_", "_<wbr>")
    )
    template = environment.get_template("page.html")
    return template.render(title=title, heading=heading, lead=lead, sections=sections, cards=cards)


def format_markup(markup: str, *values: str) -> str:
    """Return trusted markup, with values of data in place of its ``{}``: escaped, and of bounded length."""
    from markupsafe import Markup

    return Markup(markup).format(*map(_format_value, values))


def _format_value(value: Any) -> Any:
    """Return what is written of a value of a template: of a text at most ``LONGEST`` characters, markup as it is.

    Control characters are escapes: they would turn the direction of what follows, or be no HTML.
    """
    return escape_unprintable(shorten_value(value)) if type(value) is str else value


def shorten_value(value: Any) -> Any:
    """Return a text with at most ``LONGEST`` of its characters, and how many more there are; other values as they are."""
    rest = len(value) - LONGEST if isinstance(value, str) else 0
    return value if rest <= 0 else f"{value[:LONGEST]}… ({rest:,} more characters)"


def shorten_names(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers under shortened names; where one is taken, the next ends in `` (2)``, and so on."""
    shortened: dict[str, float] = {}
    for name, number in numbers.items():
        short = unique = shorten_value(name)
        count = 1
        while unique in shortened:
            count += 1
            unique = f"{short} ({count})"
        shortened[unique] = number
    return shortened
