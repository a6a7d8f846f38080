"""A second process of a stage."""

import os
import sys

import pytest

from caramel.errors import DataError, ResourceError
from caramel.runtime.second_process import make_picklable, run_beside


def get_process(_: str) -> int:
    return os.getpid()


def refuse(reason: str) -> None:
    raise DataError(reason)


def fail(number: int) -> float:
    return 1 / number


def repeat(text: str, times: int) -> str:
    return text * times


def read_input(_: str) -> str:
    return sys.stdin.read()


def end(code: int) -> None:
    os._exit(code)


def test_the_work_is_done_in_another_process_while_the_block_runs() -> None:
    with run_beside(get_process, "") as wait:
        here = os.getpid()
        assert wait() != here


def test_an_error_of_the_work_is_raised_where_its_result_is_asked_for() -> None:
    with run_beside(refuse, "row 3 is broken") as wait, pytest.raises(DataError, match="row 3 is broken"):
        wait()


def test_an_unexpected_error_says_where_it_was_raised() -> None:
    with run_beside(fail, 0) as wait, pytest.raises(ZeroDivisionError) as caught:
        wait()
    assert "in fail" in caught.value.__notes__[0]


def test_a_result_of_any_size_comes_back_or_is_dropped_with_a_block_that_fails() -> None:
    size = 10_000_000  # more than a pipe holds
    with run_beside(repeat, "a", size) as wait:
        assert len(wait()) == size
    with pytest.raises(KeyError), run_beside(repeat, "a", size):
        raise KeyError


def test_the_work_has_no_standard_input() -> None:
    with run_beside(read_input, "") as wait:
        assert wait() == ""


def test_an_error_of_the_block_is_raised_after_the_work_has_ended() -> None:
    with pytest.raises(KeyError), run_beside(get_process, ""):
        raise KeyError


def test_a_process_that_is_killed_is_told_as_such() -> None:
    with run_beside(end, 9) as wait, pytest.raises(ResourceError, match="may have been killed"):
        wait()


class Particular(Exception):
    """Its constructor wants more than is kept of it."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} at {where}")


def test_an_error_that_cannot_be_sent_is_sent_in_words() -> None:
    assert str(make_picklable(Particular("nothing", "home"))) == "Particular: nothing at home"
    error = DataError("none")
    assert make_picklable(error) is error
