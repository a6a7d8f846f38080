"""Look up licences by SPDX name: what they permit, and whether data under one may be released under another.

This is a summary for readers of a release and not legal advice; the texts are at spdx.org/licenses.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import NamedTuple


class Licence(NamedTuple):
    """The terms of a licence for data."""

    name: str  # SPDX identifier
    hub: str  # name on the hub; "other" if it has none
    commercial: bool = True  # commercial use
    changes: bool = True  # distributing changed copies
    attribution: bool = True
    alike: bool = False  # derived works must have the same licence

    @property
    def url(self) -> str:
        """Return the URL of its text."""
        return f"https://spdx.org/licenses/{self.name}.html"

    @property
    def permits(self) -> str:
        """Return a description of what it permits and requires."""
        return "; ".join(
            (
                "commercial use" if self.commercial else "no commercial use",
                "changed copies" if self.changes else "no changed copies",
                "attribution required" if self.attribution else "no attribution needed",
                *(["copies under the same licence"] if self.alike else []),
            )
        )


# Creative Commons licences that the hub knows: huggingface.co/docs/hub/repositories-licenses
_ON_HUB = {
    *("cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc-by-nc-2.0"),
    *("cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nd-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0"),
    *("cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0"),
}


def _list_creative_commons() -> list[Licence]:
    licences = []
    for version in ("2.0", "2.5", "3.0", "4.0"):
        for parts in ("BY", "BY-SA", "BY-NC", "BY-ND", "BY-NC-SA", "BY-NC-ND"):
            name = f"CC-{parts}-{version}"
            has = parts.split("-")
            free = ("NC" not in has, "ND" not in has, True, "SA" in has)
            licences.append(Licence(name, name.lower() if name.lower() in _ON_HUB else "other", *free))
    return licences


LICENCES: Mapping[str, Licence] = {
    licence.name: licence
    for licence in (
        Licence("CC0-1.0", "cc0-1.0", attribution=False),
        *_list_creative_commons(),
        Licence("PDDL-1.0", "pddl", attribution=False),
        Licence("ODC-By-1.0", "odc-by"),
        Licence("ODbL-1.0", "odbl", alike=True),
        Licence("CDLA-Permissive-1.0", "cdla-permissive-1.0"),
        Licence("CDLA-Permissive-2.0", "cdla-permissive-2.0"),
        Licence("CDLA-Sharing-1.0", "cdla-sharing-1.0", alike=True),
        Licence("MIT", "mit"),
        Licence("Apache-2.0", "apache-2.0"),
        Licence("BSD-2-Clause", "bsd-2-clause"),
        Licence("BSD-3-Clause", "bsd-3-clause"),
        Licence("Unlicense", "unlicense", attribution=False),
    )
}


def build_hub_fields(name: str | None) -> dict[str, str]:
    """Return the licence fields of a card's header.

    A licence without a name on the hub is given with its text's URL.
    """
    licence = LICENCES.get(name or "")
    if licence is None:
        return {"license": "unknown"}
    named = {"license_name": licence.name.lower(), "license_link": licence.url}
    return {"license": licence.hub, **(named if licence.hub == "other" else {})}


def format_unknown_licence(name: str) -> str:
    """Return a message about a name that is not a known licence."""
    near = difflib.get_close_matches(name.upper(), {known.upper(): known for known in LICENCES}, 1, 0.5)
    meant = next((known for known in LICENCES if near and known.upper() == near[0]), None)
    hint = f"Did you mean {meant!r}?" if meant else f"Known: {', '.join(LICENCES)}."
    return f"{name!r} is not the SPDX name of a known licence. {hint}"


def find_conflicts(released: Licence, of: str, source: Licence) -> list[str]:
    """Return the reasons why data of a source cannot be released under a licence."""
    reasons = []
    if released.commercial and not source.commercial:
        reasons.append(f"{released.name} permits commercial use, and {of} ({source.name}) does not")
    if source.attribution and not released.attribution:
        reasons.append(f"{released.name} requires no attribution, and {of} ({source.name}) does")
    if not source.changes:
        reasons.append(f"{of} ({source.name}) permits no changed copies, and a release is one")
    if source.alike and released.name != source.name:
        reasons.append(f"{of} ({source.name}) requires the same licence, and the release has {released.name}")
    return reasons
