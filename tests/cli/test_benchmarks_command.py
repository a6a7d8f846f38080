"""`caramel benchmarks` lists the benchmarks and says where their files go."""

from __future__ import annotations

from collections.abc import Callable

Call = Callable[..., tuple[int, str, str]]


def test_an_unknown_benchmark_lists_the_known_ones(eval_call: Call) -> None:
    code, _, err = eval_call("benchmarks", "sugarcreep")
    assert code == 1
    assert "Did you mean 'sugarcrepe'?" in err


def test_every_benchmark_says_what_to_put_where_and_what_it_was_checked_against(eval_call: Call) -> None:
    from caramel.registry import BENCHMARKS

    for name in BENCHMARKS:
        code, out, _ = eval_call("benchmarks", name)
        assert code == 0
        assert "Checked against: " in out
        assert len(out.splitlines()) >= 4, name
