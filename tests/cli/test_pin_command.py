"""`caramel pin` prints the citation, and `caramel verify` exits by what it finds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from caramel.release.pin import Pin

Call = Callable[..., tuple[int, str, str]]


def test_pin_prints_the_citation_and_verify_exits_by_what_it_finds(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Pin.model_construct(
        name="v1", created="2030-01-02", commit="c0ffee-dirty", data="ab" * 32, params={}, outs={}, tables={}
    )
    monkeypatch.setattr("caramel.release.pin.create_pin", lambda name, root: made)
    code, out, err = call("pin", "v1")
    assert code == 0
    assert "@misc{caramel-v1," in out
    assert "Warning: the sources differ" in err
    monkeypatch.setattr("caramel.release.pin.verify_pin", lambda name, root: [])
    assert call("verify", "v1") == (0, "The data set on disk is version v1.\n", "")
    monkeypatch.setattr("caramel.release.pin.verify_pin", lambda name, root: ["a: missing"])
    assert call("verify", "v1") == (1, "The data set on disk is not version v1:\n  - a: missing\n", "")
