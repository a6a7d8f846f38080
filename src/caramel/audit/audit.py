"""Audit of a data set's texts: what blind attackers make of them, what gives them away, and their defects."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.audit.attack import BEST, Attack, best_blind_attacker
from caramel.audit.defects import find_defects
from caramel.audit.giveaways import Giveaways, giveaways
from caramel.audit.image_shortcuts import ImageShortcuts
from caramel.audit.leakage import leakage
from caramel.storage.files import write_atomically

FILES = ("rows.parquet", "pairs.parquet", "badge.svg", "badge.md", "audit.json")  # written by ``write_audit``
LEAK_COLUMNS = ("pair_id", "side", "kind", "similarity", "row", "corpus_text", "matches")
ORDER_ONLY = "word_order_only"
REWORDED = ("replace", "add")  # types whose negatives must have other words, not the same in another order


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        name: of the data set.
        rows: the audit rows.
        folds: of the cross-validation.
        seed: of folds and draws.
        attack: what blind attackers make of them.
        giveaways: what they can go by.
        defects: name -> pair_ids of the rows that have it.
        faulty: number of rows with a defect; ``word_order_only`` counts where the type says that words are
            replaced or added.
        images: what the two images of a row give away, where it has both; None: nothing was looked at.
        leaks: texts that stand in a training corpus, ``LEAK_COLUMNS``; None: there is no corpus to look in.
    """

    name: str
    rows: pd.DataFrame
    folds: int
    seed: int
    attack: Attack
    giveaways: Giveaways
    defects: Mapping[str, Sequence[str]]
    faulty: int
    images: ImageShortcuts | None = None
    leaks: pd.DataFrame | None = None

    @property
    def best(self) -> Mapping[str, Any]:
        """The best blind attacker over all rows: micro, macro, ci_low, ci_high in [0, 1], p_value, ties."""
        found: Mapping[str, Any] = self.attack.figures[BEST]["overall"]
        return found


def audit(
    rows: pd.DataFrame,
    *,
    scorers: Sequence[str],
    folds: int,
    seed: int,
    name: str,
    corpus: Sequence[str] | None = None,
) -> Audit:
    """Return how well blind attackers do on audit rows, by what, and the rows' defects.

    The texts are taken as they are written: final stops and capital letters are part of what
    an attacker sees. Learned attackers are judged out of fold; see ``attack``.

    Args:
        rows: audit rows: pair_id, image_id, type, subtype, caption, caption2 (or None), negative_caption.
        scorers: blind scorers, see ``attack.found_scorer``.
        folds: of the cross-validation.
        seed: of folds and draws.
        name: of the data set.
        corpus: texts that language models learn from, instead of the other folds.

    Raises:
        BackendError: there is no scorer of that name, or its model cannot be loaded.
        ConfigError: no scorer is named.
    """
    attack = best_blind_attacker(rows, scorers, folds=folds, seed=seed, corpus=corpus)
    defects = find_defects(rows)
    reworded = set(rows.loc[rows["type"].isin(REWORDED), "pair_id"])
    faulty = {
        pair
        for defect, pairs in defects.items()
        for pair in pairs
        if defect != ORDER_ONLY or pair in reworded
    }
    found = giveaways(attack.rows, seed=seed)
    return Audit(name, rows, folds, seed, attack, found, defects, len(faulty))


def leaks_into(rows: pd.DataFrame, corpus: Path, *, column: str, seed: int) -> pd.DataFrame:
    """Return the captions, paraphrases and negatives that stand in a training corpus, exactly or nearly: ``LEAK_COLUMNS``.

    Args:
        rows: audit rows.
        corpus: file of texts; see ``leakage.leakage``.
        column: of the texts in it.
        seed: of the hash functions.

    Raises:
        DataError: the file is missing, broken, of no known format, or lacks the column.
    """
    texts = rows.melt("pair_id", ["caption", "caption2", "negative_caption"], "side", "said").dropna(
        subset="said"
    )
    found = leakage(texts["said"].tolist(), corpus, column=column, seed=seed)
    where = texts.iloc[found["text"].to_numpy(dtype=int)]
    return found.assign(pair_id=where["pair_id"].to_numpy(), side=where["side"].to_numpy())[
        list(LEAK_COLUMNS)
    ]


def broken(result: Audit, *, max_accuracy: float | None, max_defects: int | None) -> list[str]:
    """Return what thresholds are broken, each with its figure.

    Args:
        result: of the audit.
        max_accuracy: broken if the best blind attacker's whole 95 % interval (micro) lies above it.
        max_defects: broken if more rows have a defect; see ``Audit.faulty``.
    """
    found = []
    overall = result.attack.figures[BEST]["overall"]
    if max_accuracy is not None and overall["ci_low"] > max_accuracy:
        found.append(
            f"The best blind attacker is right on {percent(overall['micro'])} % "
            f"[{percent(overall['ci_low'])}, {percent(overall['ci_high'])}] of the rows; at most "
            f"{percent(max_accuracy)} % are allowed."
        )
    if max_defects is not None and result.faulty > max_defects:
        found.append(f"{result.faulty} rows have a defect; at most {max_defects} are allowed.")
    return found


def write_audit(result: Audit, out: Path) -> Path:
    """Write the audit to a folder and return the path of ``audit.json``.

    Beside it stand ``rows.parquet``, the audit rows; ``pairs.parquet``, the gap of each pair under each scorer,
    ``best_blind_attacker`` among them; and ``badge.svg`` with the line that shows it, ``badge.md``.
    """
    out = Path(out)
    found = json.dumps(as_json(result), indent=2, ensure_ascii=False) + "\n"
    texts = {"badge.svg": badge_svg(result), "badge.md": badge(result) + "\n", "audit.json": found}
    frames = {"rows.parquet": result.rows, "pairs.parquet": pair_gaps(result.attack)}
    for name, frame in frames.items():
        write = functools.partial(frame.to_parquet, index=False, compression="zstd")
        write_atomically(out / name, write)
    for name, text in texts.items():
        write_atomically(out / name, functools.partial(Path.write_text, data=text, encoding="utf-8"))
    return out / "audit.json"


def as_json(result: Audit) -> dict[str, Any]:
    """Return the audit as JSON-like values."""
    figures = {name: found for name, found in result.attack.figures.items() if name != BEST}
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
        "defects": {name: {"count": len(ids), "rows": list(ids)} for name, ids in result.defects.items()},
        "rows_with_defects": result.faulty,
        "giveaways": result.giveaways,
        "image_shortcuts": None if result.images is None else _shortcuts(result.images),
        "leakage": None if result.leaks is None else _leakage(result.leaks),
    }


def _shortcuts(found: ImageShortcuts) -> dict[str, Any]:
    return {"rows": len(found.positive), **found.figures, "features": found.features.to_dict("records")}


def _leakage(leaks: pd.DataFrame) -> dict[str, Any]:
    counts = leaks["kind"].value_counts()
    kinds = {kind: int(counts.get(kind, 0)) for kind in ("exact", "near")}
    return {**kinds, "rows": leaks.to_dict("records")}


def pair_gaps(attack: Attack) -> pd.DataFrame:
    """Return one row per scorer and pair: pair_id, image_id, type, subtype, scorer, gap."""
    columns = attack.rows[["pair_id", "image_id", "type", "subtype"]]
    parts = [columns.assign(scorer=name, gap=gaps) for name, gaps in attack.gaps.items()]
    return pd.concat(parts, ignore_index=True)


def badge(result: Audit) -> str:
    """Return the line of Markdown that shows ``badge.svg``."""
    overall = result.attack.figures[BEST]["overall"]
    interval = f"[{percent(overall['ci_low'])}, {percent(overall['ci_high'])}]"
    text = f"blind accuracy {percent(overall['micro'])} % {interval} (chance 50 %)"
    return f"![{text}](badge.svg)"


def badge_svg(result: Audit) -> str:
    """Return a badge of the best blind attacker's accuracy: green where it may be at chance, else amber or red."""
    overall = result.attack.figures[BEST]["overall"]
    left, right = "blind accuracy", f"{percent(overall['micro'])} %"
    low = overall["ci_low"]
    colour = "#2e7d32" if low <= 0.5 else "#b26a00" if low <= 0.6 else "#b71c1c"
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


def percent(share: float) -> str:
    """Return a share in per cent, with one decimal."""
    return f"{100 * share:.1f}"
