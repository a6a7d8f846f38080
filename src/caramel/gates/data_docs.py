"""Write Great Expectations' data docs of one validation as one self-contained HTML page.

Its renderer inserts most values unescaped, some escaped, and some through templates in which ``$`` has a meaning.
Therefore stand-ins replace the special characters of HTML and templates in every text of a result. They become
HTML escapes once the page is complete.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from caramel.errors import escape_unprintable
from caramel.io.files import write_atomically

# Replaces the style sheets that the data docs load from elsewhere, and hides what is clickable there.
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }
a { color: inherit; text-decoration: none; pointer-events: none }
table { border-collapse: collapse; width: 100%; margin-bottom: 1em }
td, th { border: 1px solid #ccc; padding: .3em .6em; vertical-align: top; text-align: left }
.card, .btn, .breadcrumb, .collapse:not(.show), .cooltip .top { display: none }
.fa-check-circle::before { content: "\u2713 passed"; color: #2a7a2a }
.fa-times::before { content: "\u2717 failed"; color: #b3261e }
.fa-exclamation-triangle::before { content: "! error"; color: #b3261e }
"""
SPECIAL_CHARACTERS = "&<>\"'$`["  # have a meaning in HTML, templates or Markdown
STAND_INS = {
    ord(character): 0xE000 + index for index, character in enumerate(SPECIAL_CHARACTERS)
}  # Unicode's private use area
OUTSIDE = ("<script.*?</script>", "<link[^>]*>", "<style.*?</style>", "<nav.*?</nav>", "<footer.*?</footer>")


def write_page(result: Any, page: Path) -> None:
    """Write the data docs of one validation to ``page``.

    The page loads nothing from elsewhere, and shows all values as plain text.
    """
    from great_expectations.render.renderer import ValidationResultsPageRenderer

    text = _get_view().render(ValidationResultsPageRenderer().render(_escape_result(result)))
    for outside in OUTSIDE:
        text = re.sub(outside, "", text, flags=re.DOTALL)
    text = text.replace("</head>", f"<style>{STYLE}</style></head>", 1)
    text = text.translate({stand_in: f"&#{sign};" for sign, stand_in in STAND_INS.items()})
    write_atomically(page, lambda temporary: temporary.write_text(text, encoding="utf-8"))


@cache
def _get_view() -> Any:
    """Return the view that all pages share, since each new view compiles its templates again."""
    from great_expectations.render.view import DefaultJinjaPageView

    return DefaultJinjaPageView()


def _escape_result(result: Any) -> Any:
    """Return a copy of a validation's result without special characters in its texts."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    whole = copy.copy(result)
    whole.suite_name, whole.meta, whole.results = (
        _escape_texts(result.suite_name),
        _escape_texts(result.meta),
        [],
    )
    for part in result.results:
        inert, config = copy.copy(part), part.expectation_config
        inert.result, inert.exception_info = _escape_texts(part.result), _escape_texts(part.exception_info)
        inert.expectation_config = ExpectationConfiguration(
            type=config.type,
            kwargs=_escape_texts(config.kwargs),
            meta=_escape_texts(config.meta),
            description=_escape_texts(config.description),
            severity=config.severity,
            id=config.id,
        )
        whole.results.append(inert)
    return whole


def _escape_texts(value: Any) -> Any:
    """Return a value with stand-ins for the special characters in all of its texts."""
    if isinstance(value, bytes):
        value = repr(value)
    if isinstance(value, str):
        return escape_unprintable(value).translate(STAND_INS)
    if isinstance(value, Mapping):
        return {_escape_texts(key): _escape_texts(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | np.ndarray):
        return [_escape_texts(part) for part in value]
    return value
