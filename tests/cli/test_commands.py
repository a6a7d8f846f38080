"""The command line answers at once, prints no traceback on a user's mistake, and exits with its code."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from commands import run_command

from caramel import cli
from caramel.blind.scorer_specs import format_scorers_help
from caramel.cli import commands
from caramel.cli.crepe.productivity import build_productivity_set
from caramel.cli.options import RenamedOption
from caramel.errors import GateError
from caramel.models.specs import format_families_help

Call = Callable[..., tuple[int, str, str]]


def names() -> list[str]:
    """Return the names of all commands that are not hidden, with those of groups."""
    shown = {name: command for name, command in commands.cli.commands.items() if not command.hidden}
    inner = [
        f"{name} {below}"
        for name, command in shown.items()
        if isinstance(command, click.Group)
        for below in command.commands
    ]
    return sorted([*shown, *inner])


@pytest.mark.parametrize("name", names())
def test_the_help_of_every_command_has_an_example(name: str, call: Call) -> None:
    code, said, _ = call(*name.split(), "--help")
    assert code == 0
    assert f"Example:\n    caramel {name}" in said


def test_every_command_stands_in_exactly_one_section_of_the_help(call: Call) -> None:
    listed = [command.name for section in commands.SECTIONS.values() for command in section]
    assert sorted(map(str, listed)) == sorted(
        name for name, command in commands.cli.commands.items() if not command.hidden
    )
    code, out, _ = call("--help")
    assert code == 0
    titles = [f"{title}:" for title in commands.SECTIONS]
    assert [line for line in out.splitlines() if line in titles] == titles
    shown = re.findall(r"^  ([a-z][a-z-]*)  +(\S.*)$", out[out.index("Evaluate:") :], re.MULTILINE)
    assert [name for name, _ in shown] == listed
    assert all(text.endswith((".", "?")) and not text.endswith("...") for _, text in shown), shown


@pytest.mark.parametrize("old", commands.RENAMED)
def test_an_old_name_is_hidden_works_and_prints_the_new_one(old: str, call: Call) -> None:
    new = commands.RENAMED[old][0]
    arguments = {"profile": ("smoke",), "budget": ()}[old]
    call(*new.split(), *arguments)  # so that both calls find the same params.yaml
    code, out, err = call(*new.split(), *arguments)
    old_code, old_out, old_err = call(old, *arguments)
    note = f"`caramel {old}` is now `caramel {new}`. The old name will be removed in the next version.\n"
    assert (old_code, old_out, old_err) == (code, out, note + err)
    assert f"\n  {old} " not in call("--help")[1]


def test_an_old_spelling_of_an_option_is_hidden_and_works() -> None:
    options = {option.name: option for option in build_productivity_set.params}
    context = click.Context(build_productivity_set)
    for new, old in (("per_complexity", "--each"), ("max_connections", "--at-once")):
        option = options[new]
        assert isinstance(option, RenamedOption)
        assert option.old == old
        assert old not in build_productivity_set.get_help(context)
        parser = build_productivity_set.make_parser(context)
        assert parser.parse_args([old, "3"])[0] == {new: "3"}


@pytest.mark.parametrize(("name", "listed"), [("eval", format_families_help), ("audit", format_scorers_help)])
def test_the_help_lists_what_can_be_named_as_it_describes_itself(
    name: str, listed: Callable[[], list[str]], call: Call
) -> None:
    _, said, _ = call(name, "--help")
    assert all(f"\n    {line.rstrip()}\n" in said for line in listed())


@pytest.mark.parametrize(
    "words",
    [
        ("table", "a", "--benchmark", b"\x80", "--out", "out.md"),
        ("release-model", "base", "--out", b"caf\xe9"),
        ("audit", b"caf\xc3\xa9/\xff.csv", "--out", "out"),
        (b"\x80",),
        ("--\x80".encode("latin-1"),),
    ],
)
def test_an_argument_that_is_no_utf_8_is_refused_before_any_command_begins(
    words: tuple[str | bytes, ...], tmp_path: Path
) -> None:
    done = run_command(tmp_path, *map(os.fsdecode, words))
    (odd,) = [os.fsdecode(word) for word in words if isinstance(word, bytes)]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: The argument {odd!r} is not UTF-8 text. Rename the file")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("forced", [{}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_a_file_whose_name_is_not_ascii_is_read_where_the_locale_is(
    forced: dict[str, str], tmp_path: Path
) -> None:
    name = "caf\xe9.csv"
    (tmp_path / name).write_text("filename,caption,negative_caption\na.png,a dog,a cat\n", encoding="utf-8")
    words = ("refine", name, "--out", "\xe9", "--folds", "2")
    done = run_command(tmp_path, *words, environment={"LC_ALL": "C", **forced}, forked=False)
    assert "UTF-8" not in done.stderr
    assert "1 rows" in done.stderr + done.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom caramel import cli\n"
        "try: cli.main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'pandas', 'numpy', 'torch', 'pydantic', 'ray', 'mlflow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_error_of_the_users_is_one_message_on_stderr(call: Call) -> None:
    code, out, err = call("config", "use", "smok")
    assert (code, out) == (1, "")
    assert err.startswith("Error: Unknown profile 'smok'. Choices: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [("config", "use", "default"), ("study",), ("study", "--dry-run")])
def test_outside_of_a_project_the_error_names_the_folder_and_says_what_to_do(
    arguments: tuple[str, ...], call: Call
) -> None:
    shutil.rmtree("params")
    code, out, err = call(*arguments)
    assert (code, out) == (1, "")
    assert err == (
        f"Error: {Path.cwd()} holds no profile (params/*.yaml): it is not a caramel project. "
        "Run this in the project's folder, or create one: `caramel new DIR`.\n"
    )
    assert not list(Path.cwd().iterdir())


def test_an_error_of_ours_keeps_its_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(commands.cli.commands, "broken", broken)
    with pytest.raises(ZeroDivisionError):
        cli.main(["broken"])


def test_every_kind_of_caramel_error_ends_in_code_one(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def gate() -> None:
        raise GateError("five rows\n  - a")

    monkeypatch.setitem(commands.cli.commands, "gate", gate)
    assert call("gate") == (1, "", "Error: five rows\n  - a\n")


@pytest.mark.parametrize("arguments", [("timings",), ("ui",), ("pin", "v1")])
def test_a_command_that_needs_results_says_to_run_dvc_repro(arguments: tuple[str, ...], call: Call) -> None:
    code, _, err = call(*arguments)
    assert code == 1
    assert "dvc repro" in err


INTERRUPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from caramel.cli import main
main(["benchmarks", "sugarcrepe"])
"""


@pytest.mark.parametrize(
    "module", ["click", "caramel.cli.eval", "caramel.runtime.environment", "numpy", "pandas"]
)
def test_ctrl_c_ends_with_one_line_while_imports_run(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPT, module], capture_output=True, text=True)
    assert done.returncode == 130
    assert (done.stdout, done.stderr.strip()) == ("", "Interrupted. Run the same command again to go on.")


@pytest.mark.parametrize("name", ["audit", "refine", "eval", "metrics", "compare", "table"])
@pytest.mark.parametrize("seed", ["-1", str(2**32)])
def test_a_seed_that_no_generator_takes_is_refused(name: str, seed: str, call: Call) -> None:
    code, _, err = call(name, "--seed", seed)
    assert code == 2
    assert f"Invalid value for '--seed': {seed} is not in the range" in err


def test_ctrl_c_in_a_command_is_one_line_and_an_end_of_file_is_none(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(error: type[BaseException]) -> click.Command:
        @click.command()
        def command() -> None:
            raise error

        return command

    monkeypatch.setitem(commands.cli.commands, "stopped", raising(KeyboardInterrupt))
    monkeypatch.setitem(commands.cli.commands, "cut", raising(EOFError))
    code, out, err = call("stopped")
    assert (code, out, err.strip()) == (130, "", "Interrupted. Run the same command again to go on.")
    with pytest.raises(EOFError):
        cli.main(["cut"])


def test_signs_that_a_terminal_obeys_are_shown_and_not_sent(call: Call) -> None:
    code, _, err = call("config", "use", "a\x1b[2Kb\u202ec")
    assert code == 1
    assert "\\x1b[2K" in err
    assert not {"\x1b", "\u202e"} & set(err)
    code, _, err = call("benchmarks", "--no-such\x1b[31m")
    assert code == 2
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.ENOSPC, "Free some space"),
        (errno.EACCES, "permissions"),
        (errno.EROFS, "another path"),
        (errno.EIO, ""),
    ],
)
def test_an_error_of_the_system_names_file_and_cure(
    number: int, cure: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def command() -> None:
        raise OSError(number, os.strerror(number), "some/file")

    monkeypatch.setitem(commands.cli.commands, "broken", command)
    code, _, err = call("broken")
    assert (code, len(err.splitlines())) == (1, 1)
    assert err.startswith(f"Error: {os.strerror(number)}: 'some/file'.")
    assert cure in err
    assert cure == "Free some space" or "space" not in err
