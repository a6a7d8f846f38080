from caramel.runtime import progress_log
from caramel.runtime.progress_log import iter_with_progress


def test_a_loop_of_seconds_prints_nothing_in_a_pipe(capsys):
    assert list(iter_with_progress("abc", title="folds", unit="fold")) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""


def test_a_long_loop_prints_what_is_done_and_the_time_that_is_left(monkeypatch, capsys):
    clock = iter(range(0, 1000, 30))
    monkeypatch.setattr(progress_log.time, "monotonic", lambda: next(clock))
    list(iter_with_progress("abc", title="probe", unit="fold"))
    assert capsys.readouterr().err.splitlines() == [
        "probe: 1 of 3 folds, about 120 s left",
        "probe: 2 of 3 folds, about 45 s left",
    ]
