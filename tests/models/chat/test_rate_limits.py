"""What a server says of when it accepts the next request."""

from __future__ import annotations

import pytest

from caramel.models.chat.rate_limits import Pace, get_reset_seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30.5s"}, 90.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "9s"}, 0.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2"}, 2.0),
        ({"x-ratelimit-remaining-requests": "0"}, 0.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}, 0.0),
    ],
)
def test_headers_say_how_long_nothing_is_left(headers: dict[str, str], seconds: float) -> None:
    assert get_reset_seconds(headers) == pytest.approx(seconds)


def test_a_pace_holds_the_longest_wish_and_no_number_is_none() -> None:
    pace = Pace()
    for wish in (50.0, 7.0, -1.0, float("nan")):
        pace.hold_requests(wish)
    assert 49 < pace.get_remaining_seconds() <= 50
