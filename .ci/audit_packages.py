"""Look for known vulnerabilities of the locked packages: `make audit-packages`.

pip-audit asks the package registry. A registry that has no such data answers "not found" for each package, and pip-audit
then exits with 0: that would read like a pass. Here it is said, and nothing counts as audited.
Exit code 1: a vulnerability is known. 0: none is known, or nothing could be asked, with the reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

IGNORED = {"CVE-2025-69872": "diskcache; docs/security.md says what it means here"}
COMMAND = [
    *(
        sys.executable,
        "-m",
        "pip_audit",
        "--requirement",
        "requirements.lock",
        "--require-hashes",
        "--disable-pip",
    ),
    *("--progress-spinner", "off", "--format", "json"),
]


def summarise(report: dict[str, Any]) -> tuple[list[str], int]:
    """Return the lines to print for pip-audit's report, and the exit code."""
    packages = report["dependencies"]
    audited = [package for package in packages if "skip_reason" not in package]
    if not audited:
        return [
            f"Not audited: the registry has data on none of {len(packages)} packages ({packages[0]['skip_reason']})."
        ], 0
    lines, found = [f"Audited {len(audited)} of {len(packages)} packages."], 0
    for package in audited:
        for vulnerability in package["vulns"]:
            names = {vulnerability["id"], *vulnerability.get("aliases", ())}
            reason = next((IGNORED[name] for name in sorted(names) if name in IGNORED), None)
            fixed = ", ".join(vulnerability["fix_versions"]) or "none"
            found += reason is None
            lines.append(
                f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}"
                + (f" (ignored: {reason})" if reason else "")
            )
    return lines, int(found > 0)


def main() -> int:
    """Ask, print and return the exit code."""
    root = Path(__file__).parents[1]
    done = subprocess.run(COMMAND, cwd=root, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        reason = (done.stderr.strip().splitlines() or ["pip-audit printed nothing"])[-1]
        print(f"Not audited: {reason[:300]}")
        return 0
    lines, code = summarise(report)
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
