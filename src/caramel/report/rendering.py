"""Pages from templates: ``base.html`` is what every page of caramel has, the others fill it in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from caramel.errors import escape_unprintable
from caramel.report.blocks import encode_data_uri

LONGEST = 2000  # characters of one text on a page or in the tables beside it; what data may hold has no bound


def render_page(template: str, **values: Any) -> str:
    """Return the page of a template of this folder; a value that it lacks is an error.

    ``base.html`` takes ``sections`` (of ``blocks.Section``) and ``cards`` (figure, label).
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
    return environment.get_template(template).render(**values)


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
