"""What became of the inputs: counts by target, and a table at the end."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = ("traceback", "hang", "memory", "wrong", "crash")


@dataclass
class Tally:
    """What became of one target's inputs."""

    tried: int = 0
    accepted: int = 0
    refused: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    distinct: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, outcome: dict[str, Any]) -> None:
        self.tried += 1
        for kind, detail in outcome["wrong"]:
            self.distinct[kind, detail].append(outcome["kept"])
        for kind in {kind for kind, _ in outcome["wrong"]}:
            self.bad[kind] += 1
        if not outcome["wrong"]:
            self.accepted += outcome["code"] == 0
            self.refused += outcome["code"] != 0


def report(tallies: dict[str, Tally], folder: Path) -> str:
    """Write table.csv and findings.json; return the table and the findings as text."""
    header = ["target", "inputs", "accepted", "refused", *KINDS, "distinct"]
    rows = [
        [name, t.tried, t.accepted, t.refused, *(t.bad[k] for k in KINDS), len(t.distinct)]
        for name, t in tallies.items()
    ]
    rows.append(["all", *(sum(int(row[n]) for row in rows) for n in range(1, len(header)))])
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    together: dict[tuple[str, str], dict[str, Any]] = {}
    for name, tally in tallies.items():
        for key, kept in tally.distinct.items():
            entry = together.setdefault(
                key, {"kind": key[0], "what": key[1], "count": 0, "targets": [], "kept": []}
            )
            entry["count"] += len(kept)
            entry["targets"].append(name)
            entry["kept"] += [k for k in kept if k][:2]
    found = sorted(together.values(), key=lambda entry: (KINDS.index(entry["kind"]), -entry["count"]))
    (folder / "findings.json").write_text(json.dumps(found, indent=1))
    lines = [f"{row[0]:28}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in [header, *rows]]
    lines += [
        f"{e['count']:5} {e['kind']:10} {e['what']}  [{', '.join(e['targets'][:3])}]  {', '.join(e['kept'][:1])}"
        for e in found
    ]
    return "\n".join(lines)
