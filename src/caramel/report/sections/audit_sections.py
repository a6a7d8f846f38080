"""Build the sections of the audit page: scorers, gaps, artifacts, defects, similarity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.audit.similarity.lexical import TEXT_PAIRS, compute_quartiles, compute_sls
from caramel.interfaces.parser import Parser
from caramel.report.audit_figures import plot_gap_histograms, plot_gap_planes, plot_similarity_boxes
from caramel.report.blocks import (
    MISSING,
    Block,
    Cell,
    FigureBlock,
    NoteBlock,
    TableBlock,
    format_count,
    format_interval,
    format_percent,
)
from caramel.report.inputs import get_number, get_value
from caramel.utils.stats import LEAST_GUESS_P, format_p

BEST = "best_blind_attacker"
WHERE = Path("audit.json")  # named in errors
MAX_EXAMPLES = 5  # rows per defect and per finding
TERMS = 10  # shown per type
NOTE_ON_TERMS = "Terms: words, pairs of words (<s> and </s>: begin and end of the text) and lengths in words."
PLANES = 3  # strongest scorers whose gaps are plotted in pairs
TEXTS = {"caption": "Caption", "caption2": "Paraphrase", "negative_caption": "Negative"}


def rank_scorers(audit: Mapping[str, Any]) -> list[str]:
    """Return the scorers, strongest first."""
    names = list(get_value(audit, "scorers", where=WHERE))
    return sorted(names, key=lambda n: -get_number(audit, "scorers", n, "overall", "micro", where=WHERE))


def build_scorers_section(
    audit: Mapping[str, Any], beside: Mapping[str, float] | None, beside_name: str
) -> list[Block]:
    """Return the accuracy of the best blind attacker and of each scorer, overall and by subtype."""
    best = get_value(audit, BEST, where=WHERE)
    subtypes = list(get_value(best, "by_subtype", where=WHERE))
    by_scorer = {BEST: best, **{name: audit["scorers"][name] for name in rank_scorers(audit)}}
    rows = [_build_scorer_row(name, figures, subtypes) for name, figures in by_scorer.items()]
    note = (
        "Per cent; chance is 50 and a tie counts half. Small: 95 % interval. Coloured: the interval is above chance. "
        "Micro: over all rows; macro: mean over the subtypes. p: one-sided, for micro, by random swaps of caption and "
        "negative; not corrected for the number of scorers."
    )
    if beside:
        shares = [beside.get(key, float("nan")) for key in ("all", "macro", *subtypes)]
        cells = [Cell(format_percent(share), mark="muted") for share in shares]
        rows.append([Cell(beside_name, "sees the images", "muted"), *cells, Cell(""), Cell("")])
        note += f" Last row: {beside_name}, as published, for comparison."
    return [TableBlock("", ("Scorer", "micro", "macro", *subtypes, "p", "ties"), rows, note=note)]


def _build_scorer_row(name: str, figures: Mapping[str, Any], subtypes: Sequence[str]) -> list[Cell]:
    overall = get_value(figures, "overall", where=WHERE)
    cells = [build_share_cell(overall, "micro", ""), build_share_cell(overall, "macro", "macro_")]
    for subtype in subtypes:
        has_subtype = subtype in figures["by_subtype"]
        cells.append(
            build_share_cell(figures["by_subtype"][subtype], "accuracy", "") if has_subtype else Cell(MISSING)
        )
    p, ties = get_number(overall, "p_value", where=WHERE), get_number(overall, "ties", where=WHERE)
    title = Cell(name.replace("_", " "), "all scorers together", "best") if name == BEST else Cell(name)
    return [title, *cells, Cell(format_p(p, ".4f", least=LEAST_GUESS_P)), Cell(format_count(ties))]


def build_share_cell(figures: Mapping[str, Any], key: str, prefix: str, chance: float = 0.5) -> Cell:
    """Return a share with its interval, marked if the interval is above chance."""
    share, low, high = (
        get_number(figures, k, where=WHERE) for k in (key, f"{prefix}ci_low", f"{prefix}ci_high")
    )
    return Cell(format_percent(share), format_interval(low, high), "bad" if low > chance else "")


def build_gaps_section(audit: Mapping[str, Any], pairs: pd.DataFrame) -> list[Block]:
    """Return histograms of the gaps: one for each scorer, and pairs of the strongest."""
    gaps = pairs.pivot(index="pair_id", columns="scorer", values="gap")
    strongest = [name for name in rank_scorers(audit) if name in gaps.columns]
    order = [*([BEST] if BEST in gaps.columns else []), *strongest]
    if not order:
        return [NoteBlock("No gaps were recorded.")]
    blocks: list[Block] = [
        FigureBlock(
            "gaps",
            plot_gap_histograms(gaps[order]),
            "Rows by gap: the score of the true caption minus the score of its negative. A set that cannot be solved "
            "blind is symmetric around 0.",
            "Histograms of the gap of each scorer.",
        )
    ]
    if len(strongest) > 1:
        blocks.append(
            FigureBlock(
                "planes",
                plot_gap_planes(gaps[strongest[:PLANES]]),
                "Rows by the gaps of two scorers, on a logarithmic scale. Refinement keeps equal numbers of rows in a "
                "cell and in its mirror image through the origin.",
                "Histograms over the plane of the gaps of two scorers.",
            )
        )
    return blocks


def build_artifacts_section(audit: Mapping[str, Any], rows: pd.DataFrame) -> list[Block]:
    """Return, by type, the artifacts that reveal the true caption, with counts and examples.

    Args:
        audit: content of ``audit.json``.
        rows: audit rows by pair_id.
    """
    blocks: list[Block] = []
    for negative_type, artifacts in get_value(audit, "giveaways", where=WHERE).items():
        findings = [
            (f"true caption is {p['true_caption_is']}", p["property"], p) for p in artifacts["properties"]
        ]
        findings += [
            (repr(t["term"]), f"indicates the {'true caption' if t['weight'] > 0 else 'negative'}", t)
            for t in artifacts["terms"][:TERMS]
        ]
        if not findings:
            blocks.append(NoteBlock(f"{negative_type}: nothing.", "good"))
            continue
        head = ("Finding", "more in caption", "more in negative", "weight")
        table = [_build_finding_row(title, what, finding) for title, what, finding in findings]
        blocks.append(TableBlock(negative_type, head, table, note=NOTE_ON_TERMS))
        columns = ("caption", "negative_caption")
        examples = [
            row
            for title, _, f in findings
            for row in _build_example_rows(rows, f["examples"], columns, title)
        ]
        head = ("Finding", "Pair", "Caption", "Negative")
        blocks.append(TableBlock(f"Examples of {negative_type}", head, examples, labels=4, folded=True))
    return blocks or [NoteBlock("No artifact was found that reveals the true caption.", "good")]


def _build_finding_row(title: str, what: str, finding: Mapping[str, Any]) -> list[Cell]:
    """Return an artifact, the number of rows in which either text has more of it, and its weight if it has one."""
    counts = [
        Cell(format_count(get_number(finding, key, where=WHERE))) for key in ("true_captions", "negatives")
    ]
    weight = f"{finding['weight']:+.2f}".replace("-", "−") if "weight" in finding else ""
    return [Cell(title, what), *counts, Cell(weight)]


def build_defects_section(audit: Mapping[str, Any], rows: pd.DataFrame) -> list[Block]:
    """Return the count of each defect and the first rows with it.

    Arguments as in ``build_artifacts_section``.
    """
    defects = get_value(audit, "defects", where=WHERE)
    counts = {name: get_number(defects, name, "count", where=WHERE) for name in defects}
    table = [
        [Cell(n.replace("_", " ")), Cell(format_count(c), mark="" if c else "muted")]
        for n, c in counts.items()
    ]
    note = "“word order only” is the intended form of a swap."
    blocks: list[Block] = [TableBlock("", ("Defect", "rows"), table, note=note)]
    columns = [c for c in TEXTS if c != "caption2" or rows[c].notna().any()]
    for name in (name for name, n_rows in counts.items() if n_rows):
        first = _build_example_rows(rows, get_value(defects, name, "rows", where=WHERE), columns)
        title = f"{name.replace('_', ' ')}: {len(first)} of {format_count(counts[name])}"
        head = ("Pair", *(TEXTS[c] for c in columns))
        blocks.append(TableBlock(title, head, first, labels=len(head), folded=True))
    return blocks


def _build_example_rows(
    rows: pd.DataFrame, pair_ids: Sequence[str], columns: Sequence[str], name: str | None = None
) -> list[list[Cell]]:
    """Return the first few of the given rows with these texts; ``name`` heads the first of them."""
    lines = []
    for index, pair_id in enumerate(list(pair_ids)[:MAX_EXAMPLES]):
        is_known = pair_id in rows.index
        texts = [rows.at[pair_id, column] if is_known else None for column in columns]
        lead = [] if name is None else [Cell(name if index == 0 else "")]
        image = str(rows.at[pair_id, "image_id"]) if is_known else ""
        cells = [Cell(text if isinstance(text, str) else MISSING) for text in texts]
        lines.append([*lead, Cell(pair_id, image), *cells])
    return lines


def build_images_section(shortcuts: Mapping[str, Any]) -> list[Block]:
    """Return how often image-only attackers find the true image, by type, and the accuracy of each single feature."""
    attackers = get_value(shortcuts, "attackers", where=WHERE)
    if not attackers:
        return [NoteBlock("Too few images of each type to attack.")]
    note = f"Per cent of {format_count(get_number(shortcuts, 'rows', where=WHERE))} rows with both images (chance 50)."
    accuracies = [
        [
            Cell(name),
            Cell(subset),
            Cell(format_percent(row["accuracy"]), format_interval(row["ci_low"], row["ci_high"])),
            Cell(format_p(row["p_value"], ".4f", least=LEAST_GUESS_P)),
            Cell(format_count(row["n"])),
        ]
        for name, figures in attackers.items()
        for subset, row in _group_by_subset(figures).items()
    ]
    table = [
        [
            Cell(str(row["feature"]).replace("_", " ")),
            Cell(format_percent(row["accuracy"]), format_interval(row["ci_low"], row["ci_high"])),
            Cell(format_p(row["p_value"], ".4f", least=LEAST_GUESS_P)),
            Cell(str(row["more_in"])),
        ]
        for row in get_value(shortcuts, "features", where=WHERE)
    ]
    reached = get_value(shortcuts, "joint", where=WHERE)
    metrics = list(dict.fromkeys(metric for of_attacker in reached.values() for metric in of_attacker))
    joint = [
        [
            Cell(f"texts × {name}"),
            *(
                Cell(format_percent(f["value"]), format_interval(f["ci_low"], f["ci_high"]))
                for f in of_attacker.values()
            ),
        ]
        for name, of_attacker in reached.items()
    ]
    joint_note = (
        "The gap between the captions (scorer probe) times the gap between the images. The match is correct if both gaps "
        "have the right sign or both the wrong one; chance is 50."
    )
    return [
        TableBlock("", ("Attacker", "Rows", "Accuracy", "p", "n"), accuracies, note=note, labels=2),
        TableBlock("With the texts, without their relation", ("Attacker", *metrics), joint, note=joint_note),
        TableBlock("One feature alone", ("Feature", "Accuracy", "p", "more in"), table),
    ]


def _group_by_subset(figures: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the results over all rows, by type and by subtype, without duplicates of the subset of all rows."""
    overall = get_value(figures, "overall", where=WHERE)
    subsets = {**get_value(figures, "by_type", where=WHERE), **get_value(figures, "by_subtype", where=WHERE)}
    several = {name: row for name, row in subsets.items() if row["n"] < overall["n"]}
    return {"all": {**overall, "accuracy": overall["micro"]}, **several}


def build_leakage_section(leakage: Mapping[str, Any]) -> list[Block]:
    """Return how many texts are in the training corpus, and the first of them."""
    counts = [
        [Cell(match_type), Cell(format_count(get_number(leakage, match_type, where=WHERE)))]
        for match_type in ("exact", "near")
    ]
    first = [
        [Cell(str(row[name])) for name in ("pair_id", "side", "kind", "corpus_text")]
        for row in get_value(leakage, "rows", where=WHERE)[:MAX_EXAMPLES]
    ]
    head = ("Pair", "Side", "Kind", "In the corpus")
    return [
        TableBlock("", ("Kind", "texts"), counts),
        TableBlock("The first of them", head, first, labels=len(head), folded=True),
    ]


def build_similarity_section(rows: pd.DataFrame, parser: Parser | None) -> list[Block]:
    """Return box plots and quartiles of the similarity of caption, paraphrase and negative."""
    rows = rows[rows["caption2"].notna()]
    words, characters = (compute_sls(rows, parser=parser, unit=unit) for unit in ("words", "characters"))
    panels = {"lexical, over words": words["lexical"], "lexical, over characters": characters["lexical"]}
    if parser is not None:
        panels |= {"syntactic": words["syntactic"], "SLS over characters": characters["sls"]}
    pair = words["pair"]
    figure = plot_similarity_boxes(
        {
            title: {name: values[pair == name].tolist() for name in TEXT_PAIRS}
            for title, values in panels.items()
        }
    )
    table = []
    for title, values in panels.items():
        quartiles = compute_quartiles(pd.DataFrame({"pair": pair, "value": values}), "value")
        for index, (name, low, median, high) in enumerate(
            quartiles[["low", "median", "high"]].itertuples(name=None)
        ):
            shares = [Cell(f"{share:.2f}") for share in (low, median, high)]
            table.append([Cell(title if index == 0 else ""), Cell(str(name)), *shares])
    caption = (
        "P1: caption; P2: paraphrase; N: negative. Published for SugarCrepe++: most of P1-P2 in 0.2–0.4 and "
    )
    caption += "most of P1-N above 0.75, of lexical × syntactic similarity (SLS)."
    if parser is None:
        caption += " Only the lexical part is shown, because no parser was given."
    head = ("Similarity", "Pair", "lower quartile", "median", "upper quartile")
    return [
        FigureBlock("similarity", figure, caption, "Box plots of similarity."),
        TableBlock("", head, table, labels=2),
    ]
