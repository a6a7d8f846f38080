"""Format the audit as text for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from caramel.audit.artifacts import Artifacts
from caramel.audit.audit import Audit, format_percent
from caramel.audit.exploitability import compute_exploitability, format_source, rank_exploitability
from caramel.benchmarks.ceilings.ceilings import compute_skill
from caramel.blind.image.attack import FEWEST
from caramel.blind.image.shortcuts import ImageShortcuts
from caramel.blind.text.attack import BEST
from caramel.errors import count_of
from caramel.report.sections.ceiling_section import (
    BOUND_NOTE,
    is_exact,
    iter_ceiling_lines,
    list_recall_notes,
    mark_bound,
)
from caramel.report.terminal import align_columns, format_inline
from caramel.utils.stats import LEAST_GUESS_P, format_p


def format_audit(result: Audit, *, beside: Mapping[str, float] | None = None, beside_name: str = "") -> str:
    """Return the audit for the terminal: per cent by scorer and subtype, artifacts, defects.

    Args:
        result: of the audit.
        beside: subtype, or ``all``, -> accuracy in [0, 1] of a model that sees the images.
        beside_name: name of that model.
    """
    figures = result.attack.figures
    subtypes = list(figures[BEST]["by_subtype"])
    names = ["micro", "macro", *subtypes]
    lines = [["scorer", *names, "interval", "p", "ties"]]
    for name in [*(n for n in figures if n != BEST), BEST]:
        overall, parts = figures[name]["overall"], figures[name]["by_subtype"]
        shares = [overall["micro"], overall["macro"], *(parts[s]["accuracy"] for s in subtypes)]
        interval = f"{format_percent(overall['ci_low'])}–{format_percent(overall['ci_high'])}"
        tail = [interval, format_p(overall["p_value"], ".4f", least=LEAST_GUESS_P), str(overall["ties"])]
        lines.append([name, *map(format_percent, shares), *tail])
    if beside:
        beside_values = [beside.get(key) for key in ("all", "macro", *subtypes)]
        lines.append(
            [beside_name, *("–" if v is None else format_percent(v) for v in beside_values), "", "", ""]
        )
    attacked = (
        "" if len(result.attack.rows) == len(result.rows) else f", {len(result.attack.rows)} of them attacked"
    )
    return "\n".join(
        [
            f"{count_of(len(result.rows), 'row')} of {result.name}{attacked}; {count_of(result.attack.groups, 'group')} by "
            f"{result.attack.grouped_by}",
            "Blind accuracy in per cent (chance 50, a tie counts half), 95 % interval and p-value of micro",
            "",
            align_columns(lines),
            "",
            *_format_tasks(result),
            "",
            *_format_ceilings(result, beside or {}, beside_name),
            "",
            *_format_artifacts(result.giveaways),
            "",
            f"Defects: {count_of(result.faulty, 'row')} (word_order_only is the intended form of a swap)",
            *(f"  {name:28}{len(ids):>6}{_format_examples(ids)}" for name, ids in result.defects.items()),
            *_format_images_and_leaks(result),
        ]
    )


def _format_tasks(result: Audit) -> list[str]:
    """Return a table of the best attackers on each task, and the largest hole."""
    lines = [["task", "learned_from", "chance", "all", "interval", "excess", "strongest", "alone", "seconds"]]
    for attack in result.attacks:
        overall, first = attack.figures[BEST]["overall"], attack.strongest
        lines.append(
            [
                attack.task.name,
                format_inline(format_source(attack.source)),
                format_percent(attack.task.chance),
                format_percent(overall["micro"]),
                f"{format_percent(overall['ci_low'])}–{format_percent(overall['ci_high'])}",
                format_percent(compute_exploitability(attack).excess),
                first,
                format_percent(attack.figures[first]["overall"]["micro"]),
                f"{attack.seconds[first]:.1f}",
            ]
        )
    largest = rank_exploitability(result)[0]
    return [
        "The best blind attacker on each task, in per cent; excess: share of the way from chance to 100 %; strongest: of all "
        "attackers, selected on the reported accuracy, so the figure is optimistic",
        "",
        align_columns(lines),
        "",
        f"Largest hole: {largest.task}, learned from {format_inline(format_source(largest.source))}: {format_percent(largest.accuracy)} % "
        f"[{format_percent(largest.ci_low)}, {format_percent(largest.ci_high)}], chance {format_percent(largest.chance)}",
    ]


def _format_ceilings(result: Audit, beside: Mapping[str, float], beside_name: str) -> list[str]:
    """Return a table of ceilings by class, and how much of a model's accuracy is above each."""
    records = result.ceilings.to_dict("records")
    subsets = list(dict.fromkeys(record["subset"] for record in records))
    lines = [["ceiling", "class", *subsets]]
    for line in iter_ceiling_lines(records):
        values = [line.by_subset[s]["ceiling"] if s in line.by_subset else float("nan") for s in subsets]
        marks = [is_exact(line.by_subset.get(s, {})) for s in subsets]
        lines.append([line.metric, line.model_class, *map(mark_bound, map(_format_share, values), marks)])
        scores = [beside.get(s, float("nan")) for s in subsets]
        if line.metric == "accuracy" and beside:
            skill = compute_skill(np.array(scores), np.array(values))
            if not np.isnan(skill).all():
                lines.append([f"  skill of {beside_name.partition(',')[0]}", "", *map(_format_share, skill)])
    return [
        "Ceilings in per cent: the most that any model of a class reaches; skill: (score - ceiling) / (1 - ceiling)",
        *list_recall_notes(records),
        *([] if all(map(is_exact, records)) else [BOUND_NOTE]),
        "",
        align_columns(lines),
    ]


def _format_share(share: float) -> str:
    return "–" if np.isnan(share) else format_percent(share)


def _format_images_and_leaks(result: Audit) -> list[str]:
    """Return lines on images and on the training corpus, if these were audited."""
    lines = []
    if result.images is not None:
        lines += ["", *_format_image_shortcuts(result.images)]
    if result.leaks is not None:
        exact, near = (int((result.leaks["kind"] == match_type).sum()) for match_type in ("exact", "near"))
        lines += ["", f"In the training corpus: {exact} texts exactly, {near} nearly"]
    return lines


def _format_image_shortcuts(shortcuts: ImageShortcuts) -> list[str]:
    """Return a line for each image-only attacker, and one on the strongest single feature."""
    if not shortcuts.figures:
        return [f"Images alone: too few to attack (a type needs {FEWEST} groups of images)"]
    first = shortcuts.features.iloc[0]
    overall = {name: figures["overall"] for name, figures in shortcuts.figures.items()}
    return [
        *(
            f"Images alone: {name} finds the true image on {format_percent(summary['micro'])} % [{format_percent(summary['ci_low'])}, "
            f"{format_percent(summary['ci_high'])}] of {len(shortcuts.rows)} rows, p {format_p(summary['p_value'], '.4f', least=LEAST_GUESS_P)}"
            for name, summary in overall.items()
        ),
        f"  the strongest single feature is {first['feature']} ({format_percent(first['accuracy'])} %)",
    ]


def _format_artifacts(artifacts: Artifacts) -> list[str]:
    """Return a line for each type: the properties, and the first terms for either side."""
    lines = ["Artifacts that reveal the true caption"]
    for negative_type, parts in artifacts.items():
        ways = [p["true_caption_is"] for p in parts["properties"][:3]]
        terms = [f"{t['term']!r} {'+' if t['weight'] > 0 else '-'}" for t in parts["terms"][:6]]
        lines.append(
            f"  {format_inline(negative_type):12}{'; '.join(ways) or 'no property'}; terms {', '.join(terms) or 'none'}"
        )
    return lines


def _format_examples(ids: Sequence[str]) -> str:
    return f"   {', '.join(map(format_inline, ids[:3]))}{', …' if len(ids) > 3 else ''}" if ids else ""
