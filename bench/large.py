"""The graph on a hundred thousand images, measured: `python bench/large.py --images 100000 --work /data/large`.

Makes the source (`large_world.py`), clones the project's last commit into the work folder, takes profile `large` and runs
`dvc repro` there. Twice a second it looks at all processes of the run. Printed are for each stage: seconds by the clock and of
processor, the memory of its largest process and what that is, and the memory of all its processes together. Pages that are
shared are divided among those who share them (PSS). What DVC itself takes, to hash and to keep, is the row `dvc`.

A second call goes on where the first was stopped. It takes 20 GB of disk for 100,000 images.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import click
import pandas as pd
import psutil

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = 0.5  # seconds
SCRIPT = re.compile(r"pipelines/(\w+)\.py")


@dataclass
class StageUsage:
    """What was seen of a stage; memory in bytes."""

    start: float = 0.0
    end: float = 0.0
    largest: int = 0
    what: str = ""
    peak_total: int = 0
    processor: dict[int, float] = field(default_factory=dict)  # seconds by process


def read_pss(process: psutil.Process) -> int:
    """Return the memory of a process in bytes, shared pages divided among those who share them; 0 if it has ended."""
    with suppress(OSError):
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        if match := re.search(r"^Pss:\s+(\d+) kB", text, re.M):
            return int(match[1]) << 10
    return 0


def sample_processes(run: psutil.Process, usage: dict[str, StageUsage]) -> None:
    """Add what the processes of the run are now."""
    memory: dict[str, int] = defaultdict(int)

    def visit_process(process: psutil.Process, stage: str) -> None:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            line = " ".join(process.cmdline())
            if match := SCRIPT.search(line):
                stage = match[1]
            used, times = read_pss(process), process.cpu_times()
            memory[stage] += used
            usage[stage].processor[process.pid] = times.user + times.system
            if used > usage[stage].largest:
                usage[stage].largest, usage[stage].what = used, process.name() if stage else line[:60]
            for child in process.children():
                visit_process(child, stage)

    visit_process(run, "dvc")
    now = time.monotonic()
    for stage, used in memory.items():
        of = usage[stage]
        of.start, of.end, of.peak_total = of.start or now, now, max(of.peak_total, used)


def prepare_project(images: int, work: Path) -> Path:
    """Make the source and the project; return the project's folder."""
    source, project = work / "source", work / "project"
    if not (source / "captions.csv").exists():
        command = [
            sys.executable,
            str(Path(__file__).with_name("large_world.py")),
            "--images",
            str(images),
            str(source),
        ]
        subprocess.run(command, check=True, env=build_environment(ROOT))
    if not project.exists():
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(project)], check=True)
        switch = ["caramel", "config", "use", "large", "--set", f"scenes.data_dir={source}"]
        subprocess.run(switch, check=True, cwd=project, env=build_environment(project))
    return project


def build_environment(project: Path) -> dict[str, str]:
    """Return the environment in which the project's own code runs."""
    return {**os.environ, "PYTHONPATH": str(project / "src")}


@click.command()
@click.option(
    "--images", default=10_000, show_default=True, help="JPEGs of 256 to 640 pixels, with five captions each."
)
@click.option("--work", default="work/large", type=click.Path(path_type=Path), help="Folder for all of it.")
@click.option("--stage", help="Up to this stage only.")
def main(images: int, work: Path, stage: str | None) -> None:
    """Run profile `large` and print seconds and memory of each stage."""
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    project = prepare_project(images, work)
    command = [sys.executable, "-m", "dvc", "repro", *([stage] if stage else [])]
    run = psutil.Popen(command, cwd=project, env=build_environment(project))
    usage: dict[str, StageUsage] = defaultdict(StageUsage)
    while run.poll() is None:
        sample_processes(run, usage)
        time.sleep(SAMPLE)
    rows = [
        (
            name,
            of.end - of.start,
            sum(of.processor.values()),
            of.largest / 1e9,
            of.what,
            of.peak_total / 1e9,
        )
        for name, of in usage.items()
    ]
    table = pd.DataFrame(
        rows, columns=["stage", "seconds", "of processor", "largest, GB", "which", "all, GB"]
    )
    click.echo(table.round(2).to_string(index=False))
    with (work / "measured.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"images": images, "stages": table.round(2).to_dict("records")}) + "\n")
    sys.exit(run.returncode)


if __name__ == "__main__":
    main()
