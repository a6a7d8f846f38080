"""Build one HTML file that needs no server: style, script and data are inside, allowed by their hashes alone."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path


def fill_offline_page(folder: Path, embedded: object) -> str:
    """Return the page of a folder with its style, script and data inside.

    Args:
        folder: holds ``index.html``, ``page.css`` and ``page.js``; the script reads the data from ``#embedded``.
        embedded: data as JSON-like values.
    """
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    # `<` could end the element; as an escape it cannot.
    data = json.dumps(embedded, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; img-src data:; script-src {_hash_source(script)}; style-src {_hash_source(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    page = (folder / "index.html").read_text(encoding="utf-8")
    for old, new in {
        '<meta charset="utf-8">': f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<link rel="stylesheet" href="/page.css">': f"<style>{style}</style>",
        '<script src="/page.js" defer></script>': "",
        "</body>": f'<script type="application/json" id="embedded">{data}</script>\n<script>{script}</script>\n</body>',
    }.items():
        assert page.count(old) == 1, old
        page = page.replace(old, new)
    return page


def _hash_source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
