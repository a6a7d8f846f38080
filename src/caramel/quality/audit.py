"""Audit of a published benchmark's texts: what blind scorers make of it, and its defects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.parallel import write_atomically
from caramel.quality.blind import words_only
from caramel.quality.scores import Accuracies, blind_accuracy, score_pairs
from caramel.sources.sugarcrepe import read_captions
from caramel.tables import SUBTYPES


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        source: the folder or file.
        rows: number of instances.
        folds: of the cross-validation.
        seed: of folds and draws.
        accuracies: scorer -> subset -> figures, as in ``scores.blind_accuracy``.
        defects: name -> pair_ids of the rows that have it.
    """

    source: str
    rows: int
    folds: int
    seed: int
    accuracies: Accuracies
    defects: Mapping[str, Sequence[str]]


def audit(path: Path, *, scorers: Sequence[str], folds: int, seed: int) -> Audit:
    """Return how well blind scorers do on a SugarCrepe(++) folder or file, and its defects.

    The texts are taken as they are written: final stops and capital letters are part of what
    an attacker sees. Learned scorers are judged out of fold, grouped by image.

    Raises:
        DataError: the files are missing, broken, or not of the format.
        BackendError: there is no scorer of that name.
    """
    rows = read_captions(path).rename(columns={"pair_id": "negative_id"})
    rows = rows.assign(pair_id=rows["negative_id"], type=rows["subtype"].str.partition("_")[0])
    pairs = rows[["pair_id", "image_id", "caption"]]
    negatives = rows[["negative_id", "pair_id", "type", "subtype", "negative_caption"]]
    scores = score_pairs(pairs, negatives, scorers=scorers, folds=folds, seed=seed)
    accuracies = blind_accuracy(scores, negatives, pairs=pairs)
    return Audit(str(path), len(rows), folds, seed, accuracies, find_defects(rows))


def find_defects(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return the pair_ids of the rows with each defect, in their order.

    Texts are compared by their words in order: case, space and punctuation do not count.

    - ``negative_equals_caption``: nothing is wrong with the negative.
    - ``paraphrase_equals_caption``: the paraphrase changes nothing.
    - ``duplicate_pair``: caption and negative stand in an earlier row, whatever its image.
    - ``word_order_only``: the same words in another order. Right for a swap; in other types it
      shows that nothing was replaced or added.

    Args:
        rows: columns pair_id, caption, caption2 (or None) and negative_caption.
    """
    caption, negative = (rows[name].map(words_only) for name in ("caption", "negative_caption"))
    paraphrase = rows["caption2"].map(lambda text: words_only(text) if isinstance(text, str) else None)
    same_words = caption.map(sorted) == negative.map(sorted)
    found = {
        "negative_equals_caption": caption == negative,
        "paraphrase_equals_caption": caption == paraphrase,
        "duplicate_pair": pd.DataFrame({"caption": caption, "negative": negative}).duplicated(),
        "word_order_only": same_words & (caption != negative),
    }
    return {name: rows.loc[holds, "pair_id"].tolist() for name, holds in found.items()}


def best_single_scorer(result: Audit) -> dict[str, dict[str, Any]]:
    """Return the scorer that does best on each subset: subset -> scorer and its accuracy."""
    best: dict[str, dict[str, Any]] = {}
    for scorer, subsets in result.accuracies.items():
        for subset, figures in subsets.items():
            if subset not in best or figures["accuracy"] > best[subset]["accuracy"]:
                best[subset] = {"scorer": scorer, **figures}
    return best


def write_audit(result: Audit, out: Path) -> Path:
    """Write ``audit.json`` into the folder ``out`` and return its path."""
    best = best_single_scorer(result)
    data = {
        "source": result.source,
        "rows": result.rows,
        "folds": result.folds,
        "seed": result.seed,
        "chance": 0.5,
        "scorers": {scorer: _by_scope(subsets) for scorer, subsets in result.accuracies.items()},
        "best_single_scorer": best.get("all"),
        "best_single_scorer_by_subtype": {s: best[s] for s in SUBTYPES if s in best},
        "defects": {name: {"count": len(ids), "rows": list(ids)} for name, ids in result.defects.items()},
    }
    path = Path(out) / "audit.json"
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path


def _by_scope(subsets: Mapping[str, Mapping[str, float | int]]) -> dict[str, Any]:
    """Return one scorer's figures, overall (micro: over rows; macro: over subtypes) and by subtype."""
    micro, macro = subsets["all"], subsets["macro"]
    overall = {
        "micro": micro["accuracy"],
        "ci_low": micro["ci_low"],
        "ci_high": micro["ci_high"],
        "macro": macro["accuracy"],
        "macro_ci_low": macro["ci_low"],
        "macro_ci_high": macro["ci_high"],
        "strict": micro["strict"],
        "ties": micro["ties"],
        "n": micro["n"],
    }
    return {"overall": overall, "by_subtype": {s: dict(subsets[s]) for s in SUBTYPES if s in subsets}}


def table(result: Audit) -> str:
    """Return the audit for the terminal: per cent per scorer and subtype, then the defects."""
    columns = ["all", "macro", *(s for s in SUBTYPES if any(s in a for a in result.accuracies.values()))]
    names = ["micro", "macro", *columns[2:]]
    lines = [
        f"{result.rows} rows of {result.source}",
        "Blind accuracy in per cent (chance 50, a tie counts half); 95 % interval of micro",
        "",
        f"{'scorer':18}{''.join(f'{n:>13}' for n in names)}{'interval':>14}{'ties':>8}",
    ]
    for scorer, subsets in result.accuracies.items():
        shares = "".join(f"{100 * subsets[c]['accuracy']:13.1f}" for c in columns)
        micro = subsets["all"]
        interval = f"{100 * micro['ci_low']:.1f}–{100 * micro['ci_high']:.1f}"
        lines.append(f"{scorer:18}{shares}{interval:>14}{micro['ties']:>8}")
    best = best_single_scorer(result).get("all")
    if best:
        lines += [
            "",
            f"Best single scorer: {best['scorer']}, {100 * best['accuracy']:.1f} without any image.",
        ]
    lines += ["", "Defects (word_order_only is what a swap should be, and a defect of other types)"]
    lines += [f"  {name:28}{len(ids):>6}{_examples(ids)}" for name, ids in result.defects.items()]
    return "\n".join(lines)


def _examples(ids: Sequence[str]) -> str:
    return f"   {', '.join(ids[:3])}{', …' if len(ids) > 3 else ''}" if ids else ""
