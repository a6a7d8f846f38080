"""`caramel doctor` exits with code 1 if something must be fixed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Call = Callable[..., tuple[int, str, str]]


def test_doctor_exits_with_code_one_outside_a_project(call: Call) -> None:
    code, out, _ = call("doctor")
    assert code == 1
    assert "FAIL  params" in out
    assert "caramel config use default" in out


def test_doctor_mends_dvcs_files_where_it_is_asked_to(call: Call) -> None:
    Path("dvc.lock").touch()
    assert "dvc.lock is not what DVC writes: it is empty" in call("doctor")[1]
    assert Path("dvc.lock").exists()
    out = call("doctor", "--fix")[1]
    assert out.startswith("fixed dvc.lock was removed;")
    assert "missing: nothing was made yet" in out
