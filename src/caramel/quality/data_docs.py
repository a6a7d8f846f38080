"""Great Expectations' data docs of one validation, as one page that stands alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from caramel.files import write_atomically

# Of the data docs, which load theirs from elsewhere: what is clickable there is left out.
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
OUTSIDE = ("<script.*?</script>", "<link[^>]*>", "<style.*?</style>", "<nav.*?</nav>", "<footer.*?</footer>")


def write_page(result: Any, page: Path) -> None:
    """Write the data docs of one validation to ``page``; it loads nothing from elsewhere."""
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    text = DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(result))
    for outside in OUTSIDE:
        text = re.sub(outside, "", text, flags=re.DOTALL)
    text = text.replace("</head>", f"<style>{STYLE}</style></head>", 1)
    write_atomically(page, lambda temporary: temporary.write_text(text, encoding="utf-8"))
