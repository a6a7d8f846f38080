"""Command ``doctor``: check machine and project."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from caramel.cli.output import add_json_option, echo, print_json
from caramel.errors import ConfigError


@click.command("doctor")
@click.option("--fix", is_flag=True, help="First repair DVC's files after a killed process.")
@click.option("--cluster", is_flag=True, help="Check each node of the cluster at RAY_ADDRESS instead.")
@click.option(
    "--remote",
    is_flag=True,
    help="Check DVC's remotes instead: whether they can be reached and written, and are complete; --fix uploads missing "
    "files.",
)
@add_json_option
def diagnose_project(fix: bool, cluster: bool, remote: bool) -> None:
    """Check this machine and this project, and say what to fix.

    Prints one line per finding. Makes no network call, except to the cluster at RAY_ADDRESS and the tracking server at
    CARAMEL_TRACKING_URI if those are set, and to the remotes with --remote. Exits with code 1 if something must be
    fixed first.

    \b
    Example:
      caramel doctor
      caramel doctor --fix
      caramel doctor --remote
      RAY_ADDRESS=10.0.0.1:6379 caramel doctor --cluster
    """
    from caramel.doctor.cluster import examine_cluster
    from caramel.doctor.findings import FAIL
    from caramel.doctor.local import examine_project, fix_project
    from caramel.doctor.remote import examine_remotes, fix_remotes

    if cluster and remote:
        raise ConfigError("--cluster and --remote cannot be combined: run `caramel doctor` once for each.")
    fixed, findings = [], []
    for done in (fix_remotes if remote else fix_project)(Path()) if fix else ():
        echo(f"fixed {done}.")
        fixed.append(done)
    for finding in examine_cluster() if cluster else (examine_remotes if remote else examine_project)(Path()):
        echo(str(finding))
        findings.append(finding)
    failed = any(finding.state == FAIL for finding in findings)
    print_json({"passed": not failed, "fixed": fixed, "findings": [asdict(finding) for finding in findings]})
    if failed:
        sys.exit(1)
