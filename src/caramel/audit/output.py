"""Write an audit: its figures as JSON, the gap of each pair, and a badge."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.audit.audit import Audit, format_best_accuracy, format_percent, judge_accuracy
from caramel.audit.exploitability import rank_exploitability
from caramel.audit.score_gaps import summarise_score_gaps
from caramel.blind.image.shortcuts import ImageShortcuts
from caramel.blind.scorers import DECIMALS
from caramel.blind.text.attack import BEST, Attack
from caramel.blind.text.text_tasks import P1_N
from caramel.io.files import write_atomically, write_csv, write_text
from caramel.plugins import Plugin, describe_plugins

FILES = (
    "rows.parquet",
    "pairs.parquet",
    "gaps.csv",
    "badge.svg",
    "badge.md",
    "audit.json",
)  # written by ``write_audit``
TOLERATED = 0.55  # limit of the accuracy on the badge if no threshold is given
COLOURS = {"accepted": "#2e7d32", "undecided": "#b26a00", "refused": "#b71c1c"}  # green, amber, red


def write_audit(
    result: Audit, out: Path, *, limit: float = TOLERATED, plugins: Sequence[Plugin] = ()
) -> Path:
    """Write the audit to a folder and return the path of ``audit.json``.

    The other files are:

    - ``rows.parquet``: the audit rows.
    - ``pairs.parquet``: the gap of each pair under each scorer, including ``best_blind_attacker``.
    - ``gaps.csv``: mean and quantiles of each scorer's gaps; see ``score_gaps``.
    - ``badge.svg``, and ``badge.md`` with the line that shows it. Both show the verdict of the interval about
      ``limit``.

    ``plugins`` are the backends of other packages that the audit used. ``audit.json`` names them.
    """
    out = Path(out)
    report = json.dumps(audit_to_dict(result, plugins), indent=2, ensure_ascii=False) + "\n"
    texts = {
        "badge.svg": format_badge_svg(result, limit),
        "badge.md": format_badge(result, limit) + "\n",
        "audit.json": report,
    }
    frames = {"rows.parquet": result.rows, "pairs.parquet": build_pair_gaps(result.attack)}
    for name, frame in frames.items():
        write = functools.partial(frame.to_parquet, index=False, compression="zstd")
        write_atomically(out / name, write)
    write_csv(out / "gaps.csv", summarise_score_gaps(result.attacks))
    for name, text in texts.items():
        write_text(out / name, text)
    return out / "audit.json"


def audit_to_dict(result: Audit, plugins: Sequence[Plugin] = ()) -> dict[str, Any]:
    """Return the audit as JSON-like values, with the plugins that it used, if any."""
    figures = {name: item for name, item in result.attack.figures.items() if name != BEST}
    single = max(figures, key=lambda name: figures[name]["overall"]["micro"])
    return {
        "name": result.name,
        "rows": len(result.rows),
        "rows_attacked": len(result.attack.rows),
        "folds": result.folds,
        "seed": result.seed,
        "chance": 0.5,
        "grouped_by": result.attack.grouped_by,
        "groups": result.attack.groups,
        "scorers": figures,
        "best_single_scorer": {"scorer": single, **figures[single]["overall"]},
        BEST: result.attack.figures[BEST],
        "attacks": [_attack_to_dict(item) for item in result.attacks],
        "holes": [hole._asdict() for hole in rank_exploitability(result)],
        "defects": {name: {"count": len(ids), "rows": list(ids)} for name, ids in result.defects.items()},
        "rows_with_defects": result.faulty,
        "ceilings": _build_ceiling_records(result.ceilings),
        "giveaways": result.giveaways,
        "image_shortcuts": None if result.images is None else _shortcuts_to_dict(result.images),
        "leakage": None if result.leaks is None else _leakage_to_dict(result.leaks),
        **({"plugins": describe_plugins(plugins)} if plugins else {}),
    }


def _build_ceiling_records(ceilings: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the ceilings as JSON-like records; a ceiling of no instances is None."""
    rounded = ceilings.assign(ceiling=ceilings["ceiling"].round(DECIMALS).astype(object))
    return rounded.where(rounded.notna(), None).to_dict("records")


def _attack_to_dict(attack: Attack) -> dict[str, Any]:
    """Return an attack as JSON-like values: task, source, figures, and the strongest attacker with its cost."""
    name = attack.strongest
    return {
        "task": attack.task.name,
        "asks": attack.task.asks,
        "chance": round(attack.task.chance, DECIMALS),
        "source": attack.source,
        "rows": len(attack.rows),
        "rows_learned_from": attack.taught,
        "strongest": {"scorer": name, **attack.figures[name]["overall"], "seconds": attack.seconds[name]},
        "seconds": dict(attack.seconds),
        "scorers": {name: of_scorer for name, of_scorer in attack.figures.items() if name != BEST},
        BEST: attack.figures[BEST],
    }


def _shortcuts_to_dict(shortcuts: ImageShortcuts) -> dict[str, Any]:
    return {
        "rows": len(shortcuts.rows),
        "attackers": dict(shortcuts.figures),
        "joint": {name: dict(metrics) for name, metrics in shortcuts.joint.items()},
        "features": shortcuts.features.to_dict("records"),
    }


def _leakage_to_dict(leaks: pd.DataFrame) -> dict[str, Any]:
    counts = leaks["kind"].value_counts()
    totals = {match_type: int(counts.get(match_type, 0)) for match_type in ("exact", "near")}
    return {**totals, "rows": leaks.to_dict("records")}


def build_pair_gaps(attack: Attack) -> pd.DataFrame:
    """Return one row per scorer and pair: pair_id, image_id, type, subtype, scorer, gap."""
    columns = attack.rows[["pair_id", "image_id", "type", "subtype"]]
    parts = [columns.assign(scorer=name, gap=gaps) for name, gaps in attack.gaps.items()]
    return pd.concat(parts, ignore_index=True)


def format_badge(result: Audit, limit: float = TOLERATED) -> str:
    """Return the line of Markdown that shows ``badge.svg``, for the attack with the worst verdict."""
    attack, judged = judge_accuracy(result, limit)[0]
    task = "" if attack.task == P1_N else f" on {attack.task.name}"
    learned = (
        "" if attack.source is None else ", learned elsewhere"
    )  # a source's name comes from the user and could break the line, so it is left out
    limits = f"(chance 50 %; at most {format_percent(limit)} %: {judged.state})"
    text = f"blind accuracy {format_best_accuracy(attack)}{task}{learned} {limits}"
    return f"![{text}](badge.svg)"


def format_badge_svg(result: Audit, limit: float = TOLERATED) -> str:
    """Return a badge: the best blind attacker's accuracy in the attack with the worst verdict, in its colour."""
    attack, judged = judge_accuracy(result, limit)[0]
    left, right = "blind accuracy", f"{format_percent(attack.figures[BEST]['overall']['micro'])} %"
    colour = COLOURS[judged.state]
    widths = [8 + 7 * len(text) for text in (left, right)]
    total = sum(widths)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img" '
        f'aria-label="{left}: {right}"><title>{left}: {right}</title>'
        f'<rect width="{widths[0]}" height="20" fill="#424242"/>'
        f'<rect x="{widths[0]}" width="{widths[1]}" height="20" fill="{colour}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{widths[0] / 2}" y="14">{left}</text>'
        f'<text x="{widths[0] + widths[1] / 2}" y="14">{right}</text></g></svg>\n'
    )
