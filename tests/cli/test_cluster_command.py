"""`caramel cluster` and `caramel doctor --cluster` say of odd arguments what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import call_command, run_command

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that returns what a command says that has to fail.

    ``new_process=True``: in a process of its own, in which Ray has not started.
    """
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)

    def call(*arguments: str, new_process: bool = False) -> str:
        done = (run_command if new_process else call_command)(tmp_path, *arguments)
        said = done.stdout + done.stderr
        assert done.returncode in (1, 2), said
        assert "Traceback" not in said
        return said

    return call


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["head", "--port", "0"], "0 is not in the range 1024<=x<=65431"),
        (["head", "--port", "70000"], "70000 is not in the range"),
        (["head", "--port", "65500"], "65500 is not in the range"),
        (["head", "--port", "text"], "'text' is not a valid integer"),
        (["head", "--num-cpus", "-1"], "-1 is not in the range x>=0"),
        (["head", "--object-store-memory", "1"], "1 is not in the range x>=78643200"),
        (["head", "--host", "no-host.invalid"], "--host 'no-host.invalid' is no address of this machine"),
        (["worker", "é:é"], "'é:é' is not HOST:PORT"),
        (["worker", "127.0.0.1:0"], "'127.0.0.1:0' is not HOST:PORT"),
        (["worker", "127.0.0.1:1"], "Nothing answers at '127.0.0.1:1'"),
        (["worker", "127.0.0.1:1", "--num-gpus", "1.5"], "'1.5' is not a valid integer"),
    ],
)
def test_an_odd_argument_is_named(run: Run, arguments: list[str], message: str) -> None:
    assert message in run("cluster", *arguments)


@pytest.mark.parametrize("address", ["auto", "é:é", "host:70000", "127.0.0.1:1", "ray://127.0.0.1:1"])
def test_the_doctor_names_an_address_that_cannot_be_reached(
    run: Run, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    said = run(
        "doctor", "--cluster", new_process=True
    )  # earlier tests in this one may have started a cluster
    assert f"RAY_ADDRESS={address!r} cannot be joined: " in said
