"""Fuzzing: thousands of mutated inputs for every reader and command, each judged by what must hold.

    python tests/fuzz/run.py --inputs 10000 --seed 1
    python tests/fuzz/run.py --only "audit .csv" --only compare --inputs 500
    python tests/fuzz/run.py --again work/fuzz/compare-3        one input that failed, once more
    python tests/fuzz/run.py --valid --only "get repository"    is what was not mutated taken?

Inputs that fail are kept in ``work/fuzz`` with a file ``case.json``. The exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent / name) for name in ("support", "report")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import harness  # noqa: E402
from empty_stores import build_initialization  # noqa: E402
from harness import Target  # noqa: E402
from remote_projects import QUIET  # noqa: E402
from sandbox import fresh, in_child, snapshot  # noqa: E402
from tally import report  # noqa: E402
from targets import targets  # noqa: E402
from tqdm import tqdm  # noqa: E402

from bench import PATIENCE, Bench, fuzz, run_case  # noqa: E402


def chosen(only: list[str]) -> list[Target]:
    """Return the targets that are named, or all."""
    known = targets()
    found = [t for t in known if not only or any(t.name == o or t.name.startswith(f"{o} ") for o in only)]
    if not found:
        raise SystemExit(f"No target is named {only!r}. Targets: {', '.join(t.name for t in known)}.")
    return found


def prepare(root: Path, whole: bool) -> None:
    """Let nothing reach a network, nor wait; the ``whole`` of what commands import is imported, for all forked processes."""
    from caramel.runtime.environment import be_quiet

    be_quiet()
    os.environ.update(QUIET)
    if whole:
        _import_all()
    from mlflow.store.db import utils

    from caramel.registry import FAMILIES
    from caramel.runtime.mlflow import retry, server

    utils._initialize_tables = build_initialization(root / "empty.db")
    _parse_own_sources_once()
    for name in ("counting", "matching"):
        FAMILIES.targets[name] = f"encoders:{name.upper()}"  # type: ignore[index]
    FAMILIES.targets["chat"] = "chat_server:QUICK"  # type: ignore[index]
    server.PAUSES, server.ANSWER, server.WHOLE = (0.0,), 0.5, 2.0
    retry.PAUSES = (0.0,)


def _parse_own_sources_once() -> None:
    """Let caramel's sources, which do not change, be parsed once: caches are emptied before each input."""
    from caramel.runtime import code_deps

    parse, known = code_deps._parse_mentions.__wrapped__, {}

    def mentions(file: Path) -> tuple[str, ...]:
        if not file.is_relative_to(harness.PACKAGE):
            return parse(file)
        if file not in known:
            known[file] = parse(file)
        return known[file]

    code_deps._parse_mentions = mentions


def _import_all() -> None:
    """Import what the commands import."""
    import matplotlib.pyplot  # noqa: F401
    import mlflow.store.tracking.sqlalchemy_store  # noqa: F401
    import open_clip  # noqa: F401
    import sentence_transformers  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import torch
    import transformers  # noqa: F401
    from encoders import counting  # noqa: F401

    import caramel.audit.audit
    import caramel.evaluation.evaluate
    import caramel.report.audit_page
    import caramel.report.page  # noqa: F401

    torch.set_num_threads(1)
    _warm_up()


def _warm_up() -> None:
    """Run some commands once: what they import and look up at their first call, forked processes have."""
    from corpus import named

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        named("csv")()
        for words in (
            ["audit", "data/mine.csv", "--out", "a", "--scorer", "probe", "--folds", "2"],
            ["doctor"],
        ):
            harness.invoke(words)
        os.chdir(before)


def again(bench: Bench, folder: Path, named: list[Target]) -> int:
    """Run an input that was kept once more, and print what a user sees."""
    case = json.loads((folder / "case.json").read_text())
    (target,) = [t for t in named if t.name == case["target"]]
    lines: list[str] = []

    def once(tell: Callable[[str], None]) -> None:
        os.environ["DVC_ROOT"] = str(bench.store)
        valid = snapshot(bench.template(target))
        box = fresh(bench.root, folder / "box", bench.secret, case["folder"])
        url = "" if target.serve is None else target.serve(box)
        tell(run_case(target, case["arguments"], box, valid, url).line())

    ended = in_child(once, lines.append, PATIENCE)
    outcome = (
        json.loads(lines[0]) if lines else {"said": "", "trace": "", "wrong": [("crash", ended)], "code": -1}
    )
    print(
        f"caramel {' '.join(map(ascii, case['arguments']))}\n{outcome['said']}{outcome['trace']}\nexit {outcome['code']}"
    )
    for kind, detail in outcome["wrong"]:
        print(f"{kind}: {detail}")
    return int(bool(outcome["wrong"]))


def try_valid(bench: Bench, chosen_targets: list[Target]) -> int:
    """Run the valid input of each target, and print those that were not taken; return how many there are."""
    refused = 0
    for target in chosen_targets:
        outcome = bench.valid(target)
        if outcome.code not in target.codes or outcome.wrong:
            refused += 1
            print(
                f"{target.name}: exit {outcome.code}, {outcome.wrong}\n{outcome.said[-2000:]}{outcome.trace}"
            )
    return refused


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=10_000, help="number of inputs (default 10000)")
    parser.add_argument("--seed", type=int, default=0, help="equal seeds give equal inputs (default 0)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="one target, repeatable")
    parser.add_argument(
        "--out", type=Path, default=Path("work/fuzz"), help="folder of the table and of what failed"
    )
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="run one kept input once more")
    parser.add_argument(
        "--valid", action="store_true", help="run the input of each target that is not mutated"
    )
    given_ = parser.parse_args(words)
    kept, named = given_.out.resolve(), chosen([] if given_.again else given_.only)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where the many syncs of files cost nothing
    with tempfile.TemporaryDirectory(prefix="caramel-fuzz-", dir=memory) as root:
        prepare(Path(root), whole=not (given_.valid and given_.only))
        bench = Bench(Path(root), kept, named)
        if given_.again is not None:
            return again(bench, given_.again.resolve(), named)
        if given_.valid:
            return int(try_valid(bench, named) > 0)
        shutil.rmtree(kept, ignore_errors=True)
        start = time.monotonic()
        with tqdm(total=given_.inputs, unit=" inputs", disable=None) as bar:
            tallies = fuzz(bench, named, given_.inputs, given_.seed, bar)
        print(report(tallies, kept))
        print(f"{time.monotonic() - start:.0f} s, seed {given_.seed}; kept in {given_.out}.")
    return int(any(tally.distinct for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
