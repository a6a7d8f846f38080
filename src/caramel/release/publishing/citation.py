"""Write a release's citations: BibTeX, ``CITATION.cff`` (citation-file-format 1.2) and ``.zenodo.json`` for a deposit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from caramel.release.publishing.card import ReleaseFacts
from caramel.release.publishing.escaping import escape_tex, flatten_text, format_yaml
from caramel.release.publishing.licences import LICENCES


def format_bibtex(facts: ReleaseFacts) -> str:
    """Return a BibTeX entry with version, commit and data hash."""
    pinned, about = facts.pinned, facts.about
    fields = {
        "title": f"{{{escape_tex(facts.title)}}}",
        "author": " and ".join(
            f"{_format_name_part(a.family)}, {_format_name_part(a.given)}" for a in about.authors
        ),
        "year": pinned.created[:4],
        "version": escape_tex(pinned.name),
        "doi": about.doi or "",
        "url": about.url or "",
        "note": f"git commit {pinned.commit}; data SHA-256 {pinned.data}",
    }
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
    return f"@misc{{{pinned.name},\n{lines}\n}}"


def _format_name_part(text: str) -> str:
    """Return a part of a name, in braces if it contains BibTeX's separators of names or name parts."""
    part = escape_tex(text)
    return f"{{{part}}}" if "," in part or re.search(r"\band\b", part, re.IGNORECASE) else part


def write_citations(facts: ReleaseFacts, folder: Path) -> None:
    """Write ``citation.bib``, ``CITATION.cff`` and ``.zenodo.json``."""
    (folder / "citation.bib").write_text(f"{format_bibtex(facts)}\n", encoding="utf-8")
    (folder / "CITATION.cff").write_text(format_yaml(_build_cff(facts)), encoding="utf-8")
    text = json.dumps(_build_zenodo(facts), indent=1, ensure_ascii=False)
    (folder / ".zenodo.json").write_text(text.replace("<", "\\u003c") + "\n", encoding="utf-8")


def _build_cff(facts: ReleaseFacts) -> dict[str, Any]:
    pinned, about = facts.pinned, facts.about
    authors = [
        {
            "given-names": a.given,
            "family-names": a.family,
            **({"orcid": f"https://orcid.org/{a.orcid}"} if a.orcid else {}),
            **({"affiliation": a.affiliation} if a.affiliation else {}),
        }
        for a in about.authors
    ]
    fields: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "If you use this data set, please cite it as below.",
        "type": "dataset",
        "title": flatten_text(facts.title),
        "authors": authors or [{"name": "not said"}],
        "version": pinned.name,
        "date-released": pinned.created,
        "identifiers": [
            {"type": "other", "value": f"sha256:{pinned.data}", "description": "hash of the data's content"}
        ],
    }
    optional = {
        "abstract": about.description,
        "license": about.licence if about.licence in LICENCES else None,
        "doi": about.doi,
        "url": about.url,
        "commit": None if pinned.commit == "unknown" else pinned.commit,
        "keywords": list(about.keywords),
    }
    return fields | {name: value for name, value in optional.items() if value}


def _build_zenodo(facts: ReleaseFacts) -> dict[str, Any]:
    """Return the metadata of a deposit; its description is HTML."""
    pinned, about = facts.pinned, facts.about
    creators = [
        {
            "name": f"{a.family}, {a.given}",
            **({"orcid": a.orcid} if a.orcid else {}),
            **({"affiliation": a.affiliation} if a.affiliation else {}),
        }
        for a in about.authors
    ]
    escaped = flatten_text(about.description or facts.title)
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        escaped = escaped.replace(sign, name)
    fields = {
        "upload_type": "dataset",
        "title": flatten_text(facts.title),
        "description": f"<p>{escaped}</p>",
        "creators": creators or [{"name": "not said"}],
        "version": pinned.name,
        "publication_date": pinned.created,
        "keywords": ["compositionality", "hard negatives", *about.keywords],
        "notes": f"git commit {pinned.commit}; data SHA-256 {pinned.data}",
    }
    licence = LICENCES.get(about.licence or "")
    return (
        fields
        | ({"license": licence.name.lower()} if licence else {})
        | ({"doi": about.doi} if about.doi else {})
    )
