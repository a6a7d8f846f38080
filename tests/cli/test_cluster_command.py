"""`caramel cluster` and `caramel doctor --cluster` say of odd arguments what is wrong with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CARAMEL = Path(sys.executable).with_name("caramel")


def run(folder: Path, *arguments: str, **environment: str) -> str:
    """Return what a command says that has to fail."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    variables |= {"HOME": str(folder), "RAY_AUTH_TOKEN": "0" * 64, **environment}
    done = subprocess.run([CARAMEL, *arguments], env=variables, cwd=folder, capture_output=True, text=True, check=False)  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode in (1, 2), said
    assert "Traceback" not in said
    return said


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
def test_an_odd_argument_is_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    assert message in run(tmp_path, "cluster", *arguments)


@pytest.mark.parametrize("address", ["auto", "é:é", "host:70000", "127.0.0.1:1", "ray://127.0.0.1:1"])
def test_the_doctor_names_an_address_that_cannot_be_reached(tmp_path: Path, address: str) -> None:
    said = run(tmp_path, "doctor", "--cluster", RAY_ADDRESS=address)
    assert f"RAY_ADDRESS={address!r} cannot be joined: " in said
