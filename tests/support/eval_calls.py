"""Runs `caramel eval` on the small benchmark of the fixture ``eval_call``."""

from __future__ import annotations

from collections.abc import Callable

Call = Callable[..., tuple[int, str, str]]


def run_eval(call: Call, model: str, out: str, *more: str) -> tuple[int, str, str]:
    return call(
        "eval", "--model", model, "--benchmark", "sugarcrepe", "--data", "data", "--images", "images",
        "--out", out, "--n-bootstrap", "100", *more,
    )  # fmt: skip
