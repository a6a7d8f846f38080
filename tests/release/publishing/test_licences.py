"""A release permits no more than its sources, and the hub is told of licences by its own names."""

from __future__ import annotations

import pytest

from caramel.release.publishing.licences import LICENCES, build_hub_fields, find_conflicts


@pytest.mark.parametrize(
    ("released", "source", "said"),
    [
        ("CC0-1.0", "CC-BY-4.0", "CC0-1.0 requires no attribution, and it (CC-BY-4.0) does"),
        ("PDDL-1.0", "CC-BY-2.0", "PDDL-1.0 requires no attribution, and it (CC-BY-2.0) does"),
        ("CC-BY-4.0", "CC-BY-2.0", None),
        ("CC-BY-4.0", "CC0-1.0", None),
    ],
)
def test_what_asks_for_attribution_is_not_released_without(
    released: str, source: str, said: str | None
) -> None:
    found = find_conflicts(LICENCES[released], "it", LICENCES[source])
    assert found == ([] if said is None else [said])


def test_a_licence_that_the_hub_has_no_name_for_is_named_with_its_text() -> None:
    assert build_hub_fields("CC-BY-2.5") == {"license": "cc-by-2.5"}
    assert build_hub_fields("CC-BY-ND-3.0") == {
        "license": "other",
        "license_name": "cc-by-nd-3.0",
        "license_link": "https://spdx.org/licenses/CC-BY-ND-3.0.html",
    }
    assert build_hub_fields(None) == build_hub_fields("ours") == {"license": "unknown"}
