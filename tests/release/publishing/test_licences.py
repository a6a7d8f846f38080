"""A release permits no more than its sources, and the hub is told of licences by its own names."""

from __future__ import annotations

import pytest

from caramel.release.publishing.licences import LICENCES, conflicts, on_hub


@pytest.mark.parametrize(
    ("released", "source", "said"),
    [
        ("CC0-1.0", "CC-BY-4.0", "CC0-1.0 asks for no attribution, and it (CC-BY-4.0) does"),
        ("PDDL-1.0", "CC-BY-2.0", "PDDL-1.0 asks for no attribution, and it (CC-BY-2.0) does"),
        ("CC-BY-4.0", "CC-BY-2.0", None),
        ("CC-BY-4.0", "CC0-1.0", None),
    ],
)
def test_what_asks_for_attribution_is_not_released_without(
    released: str, source: str, said: str | None
) -> None:
    found = conflicts(LICENCES[released], "it", LICENCES[source])
    assert found == ([] if said is None else [said])


def test_a_licence_that_the_hub_has_no_name_for_is_named_with_its_text() -> None:
    assert on_hub("CC-BY-2.5") == {"license": "cc-by-2.5"}
    assert on_hub("CC-BY-ND-3.0") == {
        "license": "other",
        "license_name": "cc-by-nd-3.0",
        "license_link": "https://spdx.org/licenses/CC-BY-ND-3.0.html",
    }
    assert on_hub(None) == on_hub("ours") == {"license": "unknown"}
