"""Stage ``report``: write one page on the data, the images and the models."""

from __future__ import annotations

from pathlib import Path

from caramel.config.schema import Config
from caramel.report.page import build_report, write_report
from caramel.runtime.mlflow import tracking
from caramel.runtime.stage_runner import run_stage
from caramel.runtime.timings import find_last_run
from caramel.study.preregistration import RunFacts, check_registration

DATA, LAST = Path("data"), Path("work/report/last.json")


def report(config: Config) -> None:
    """Write the page, its figures and its key results."""
    root = Path.cwd()
    commit = tracking.get_git_commit(root)
    outputs = sorted(str(path) for path in DATA.rglob("*"))
    built = build_report(
        DATA,
        profile=config.profile,
        commit=commit,
        versions=tracking.get_data_versions(outputs, root),
        last=LAST,
        examples=config.report.examples,
        exempt=config.refine.exempt,
        primary_comparison=config.report.primary_comparison.model_dump(),
        registration=check_registration(
            Path(config.report.plan) if config.report.plan else None,
            config.report.primary_comparison,
            RunFacts([config.scenes.seed], find_last_run("evaluate", config.profile)),
        ),
        annotations=Path(config.annotation.baseline_dir),
    )
    write_report(built, DATA / "report", last=LAST, profile=config.profile, commit=commit)
    print(f"Report: {DATA / 'report' / 'report.html'}")


if __name__ == "__main__":
    run_stage(report)
