from __future__ import annotations

from pathlib import Path

import pytest
from chat_server import ChatServer
from obliging_writer import BOTH, CAPTIONS, MODEL, obliging, pairs_of, write

from caramel.sources.captions.cost_estimate import CostEstimate, estimate_cost


def forecast_of(
    url: str, folder: Path, captions: list[str], sample: int = 100, **model: object
) -> CostEstimate:
    settings = {**MODEL, "target": f"chat:m@{url}", "name": "m", **model}
    store = folder / "r.sqlite"
    return estimate_cost(
        pairs_of(captions), seed=2, max_attempts=3, parts=BOTH, model=settings, sample=sample, store=store
    )


@pytest.mark.parametrize(("compose", "composed"), [("edit", 0), ("model", 1)])
def test_a_forecast_is_what_good_answers_take_and_asks_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compose: str, composed: int
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ChatServer(obliging)
    try:
        prices = {"price_per_mtok_in": 1.0, "price_per_mtok_out": 10.0}
        found = forecast_of(server.url, tmp_path, CAPTIONS, compose=compose, **prices)
        assert server.requests == []
        assert (found.texts, found.num_sampled, found.known) == (32, 32, 0)
        assert found.requests == 4 * (
            3 + 3 * (1 + composed) + 2 + 2 * (1 + composed) + 7 + 2
        )  # finds, replace, swap, add, validators, paraphrase
        assert found.cost == pytest.approx((found.input_tokens + 10 * found.output_tokens) / 1e6)
        write(server.url, tmp_path, compose=compose)
        assert (
            abs(len(server.requests) - found.requests) <= 4
        )  # of two that cannot be swapped nothing is validated
        after = forecast_of(server.url, tmp_path, CAPTIONS, compose=compose)
        assert (after.requests, after.known) == (0, len(server.requests))
    finally:
        server.close()


def test_figures_of_some_texts_are_those_of_all(tmp_path: Path) -> None:
    captions = [
        f"A {word} dog near a tree." for word in ("red", "big", "old", "wet", "fat", "shy") for _ in range(1)
    ]
    whole = forecast_of("http://127.0.0.1:9/v1", tmp_path, captions)
    some = forecast_of("http://127.0.0.1:9/v1", tmp_path, captions, sample=2)
    assert (some.num_sampled, whole.num_sampled) == (16, 48)
    assert some.texts == whole.texts
    assert some.requests == whole.requests
    assert some.input_tokens == pytest.approx(whole.input_tokens, rel=0.01)


def test_of_no_captions_nothing_is_asked(tmp_path: Path) -> None:
    assert forecast_of("http://127.0.0.1:9/v1", tmp_path, []) == CostEstimate(0, 0, 0, 0, 0, 0, 0.0)
