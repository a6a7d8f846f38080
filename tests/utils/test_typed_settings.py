"""Settings are built from flat mappings, and nothing in these is left over or missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from caramel.errors import ConfigError
from caramel.utils.typed_settings import build_settings


@dataclass(frozen=True)
class Part:
    rate: float
    pair: tuple[float, float]


@dataclass(frozen=True)
class Extra:
    rank: int


@dataclass(frozen=True)
class Whole:
    seed: int
    part: Part
    extra: Extra | None
    limit: int | None


GIVEN: dict[str, Any] = {"seed": 1, "rate": 0.5, "pair": [0.1, 0.2], "extra": {"rank": 3}, "limit": None}


def test_a_class_within_a_class_takes_its_keys_from_the_same_mapping_or_from_its_own() -> None:
    expected = Whole(1, Part(0.5, (0.1, 0.2)), Extra(3), None)
    assert build_settings(Whole, GIVEN) == expected
    assert (
        build_settings(Whole, {"seed": 1, "part": expected.part, "extra": Extra(3), "limit": None})
        == expected
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**GIVEN, "sede": 2, "b": 1}, "Unknown settings of Whole: b, sede"),
        ({**GIVEN, "extra": {"rank": 3, "alpha": 1}}, "Unknown settings of Extra: alpha"),
        ({name: value for name, value in GIVEN.items() if name != "rate"}, "Missing setting of Part: rate"),
        (
            {name: value for name, value in GIVEN.items() if name != "limit"},
            "Missing setting of Whole: limit",
        ),
    ],
)
def test_a_key_that_is_unknown_or_missing_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build_settings(Whole, given)
