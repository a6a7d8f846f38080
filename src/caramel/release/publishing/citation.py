"""How a release is cited: BibTeX, ``CITATION.cff`` (citation-file-format 1.2), and ``.zenodo.json`` for a deposit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from caramel.release.publishing.card import Facts
from caramel.release.publishing.escaping import one_line, tex, yaml
from caramel.release.publishing.licences import LICENCES


def bibtex(facts: Facts) -> str:
    """Return a BibTeX entry that names version, commit and data."""
    pinned, about = facts.pinned, facts.about
    fields = {
        "title": f"{{{tex(facts.title)}}}",
        "author": " and ".join(f"{_name_part(a.family)}, {_name_part(a.given)}" for a in about.authors),
        "year": pinned.created[:4],
        "version": tex(pinned.name),
        "doi": about.doi or "",
        "url": about.url or "",
        "note": f"git commit {pinned.commit}; data SHA-256 {pinned.data}",
    }
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
    return f"@misc{{{pinned.name},\n{lines}\n}}"


def _name_part(text: str) -> str:
    """Return a part of a name; in braces where it has what parts names or authors of each other."""
    part = tex(text)
    return f"{{{part}}}" if "," in part or re.search(r"\band\b", part, re.IGNORECASE) else part


def write_citations(facts: Facts, folder: Path) -> None:
    """Write ``citation.bib``, ``CITATION.cff`` and ``.zenodo.json``."""
    (folder / "citation.bib").write_text(f"{bibtex(facts)}\n", encoding="utf-8")
    (folder / "CITATION.cff").write_text(yaml(_cff(facts)), encoding="utf-8")
    text = json.dumps(_zenodo(facts), indent=1, ensure_ascii=False)
    (folder / ".zenodo.json").write_text(text.replace("<", "\\u003c") + "\n", encoding="utf-8")


def _cff(facts: Facts) -> dict[str, Any]:
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
    found: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "If you use this data set, please cite it as below.",
        "type": "dataset",
        "title": one_line(facts.title),
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
    return found | {name: value for name, value in optional.items() if value}


def _zenodo(facts: Facts) -> dict[str, Any]:
    """Return the metadata of a deposit, whose description is HTML."""
    pinned, about = facts.pinned, facts.about
    creators = [
        {
            "name": f"{a.family}, {a.given}",
            **({"orcid": a.orcid} if a.orcid else {}),
            **({"affiliation": a.affiliation} if a.affiliation else {}),
        }
        for a in about.authors
    ]
    escaped = one_line(about.description or facts.title)
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        escaped = escaped.replace(sign, name)
    found = {
        "upload_type": "dataset",
        "title": one_line(facts.title),
        "description": f"<p>{escaped}</p>",
        "creators": creators or [{"name": "not said"}],
        "version": pinned.name,
        "publication_date": pinned.created,
        "keywords": ["compositionality", "hard negatives", *about.keywords],
        "notes": f"git commit {pinned.commit}; data SHA-256 {pinned.data}",
    }
    licence = LICENCES.get(about.licence or "")
    return (
        found
        | ({"license": licence.name.lower()} if licence else {})
        | ({"doi": about.doi} if about.doi else {})
    )
