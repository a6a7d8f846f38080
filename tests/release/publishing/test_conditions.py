"""Conditions of use are what the table of licences says."""

from __future__ import annotations

import pytest

from caramel.release.publishing.conditions import build_usage_info
from caramel.release.publishing.licences import LICENCES


def actions(rule: dict[str, object]) -> list[str]:
    listed = rule["odrl:action"]
    assert isinstance(listed, list)
    return [action["@id"] for action in listed]


def test_a_licence_without_changes_or_trade_forbids_both() -> None:
    offer = build_usage_info(LICENCES["CC-BY-NC-ND-4.0"])
    assert actions(offer["odrl:permission"]) == ["odrl:use", "odrl:distribute"]
    assert actions(offer["odrl:prohibition"]) == ["cc:CommercialUse", "cc:DerivativeWorks"]


def test_the_duty_to_share_alike_is_one() -> None:
    offer = build_usage_info(LICENCES["CC-BY-SA-4.0"])
    assert actions(offer["odrl:permission"]["odrl:duty"]) == ["odrl:attribute", "cc:ShareAlike"]


@pytest.mark.parametrize("name", ["CC0-1.0", "PDDL-1.0"])
def test_a_dedication_to_the_public_demands_nothing(name: str) -> None:
    offer = build_usage_info(LICENCES[name])
    assert "odrl:duty" not in offer["odrl:permission"]
    assert "odrl:prohibition" not in offer
