"""Describe what a licence permits and demands, for programs: an offer in ODRL (w3.org/TR/odrl-vocab).

Croissant 1.1 takes it as ``usageInfo``. Where ODRL's vocabulary has no term, the one of Creative Commons
(creativecommons.org/ns) is used, as ODRL recommends. Like ``licences``, it is a summary: the licence's text decides.
"""

from __future__ import annotations

from typing import Any

from caramel.release.publishing.licences import Licence

ODRL = "http://www.w3.org/ns/odrl/2/"
CC = "http://creativecommons.org/ns#"


def build_usage_info(licence: Licence) -> dict[str, Any]:
    """Return the conditions of use of data under a licence."""
    duties = [
        *(["odrl:attribute"] if licence.attribution else []),
        *(["cc:ShareAlike"] if licence.alike else []),
    ]
    permission: dict[str, Any] = {
        "@type": "odrl:Permission",
        "odrl:action": _list_actions(
            ["odrl:use", "odrl:distribute", *(["odrl:derive"] if licence.changes else [])]
        ),
    }
    if duties:
        permission["odrl:duty"] = {"@type": "odrl:Duty", "odrl:action": _list_actions(duties)}
    forbidden = [
        *([] if licence.commercial else ["cc:CommercialUse"]),
        *([] if licence.changes else ["cc:DerivativeWorks"]),
    ]
    prohibition = {"@type": "odrl:Prohibition", "odrl:action": _list_actions(forbidden)}
    return {
        "@type": ["CreativeWork", "odrl:Offer"],
        "name": f"Conditions of {licence.name}",
        "description": f"{licence.permits}. This is a summary; the licence decides.",
        "url": licence.url,
        "odrl:permission": permission,
        **({"odrl:prohibition": prohibition} if forbidden else {}),
    }


def _list_actions(names: list[str]) -> list[dict[str, str]]:
    return [{"@id": name} for name in names]
