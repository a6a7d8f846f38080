"""What attackers make of the benchmark's pictures: alone, and with the texts but not their relation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from caramel.benchmarks.metrics import METRICS
from caramel.report.blocks import (
    MISSING,
    Block,
    Cell,
    NoteBlock,
    TableBlock,
    format_count,
    format_interval,
    format_percent,
)
from caramel.report.inputs import get_number, get_value, read_json

JOINT = (("GroupMatch", "group_match", "all"), ("GroupMatch without add", "group_match", "without_add"))
TITLES = {"instances": "the benchmark", "instances_source": "positives of the source"}


def build_image_attack_section(data: Path) -> list[Block]:
    """Return how often attackers that see an instance's two pictures alone tell which is the negative's, form by form."""
    forms, path, raw = _read_forms(data)
    if not forms:
        return [NoteBlock("There is no instance, so that nothing was attacked.", "skipped")]
    columns = {
        f"{TITLES.get(form, form)}: {attacker}": figures
        for form, of_form in forms.items()
        for attacker, figures in get_value(of_form, "pictures", where=path).items()
    }
    subsets = dict.fromkeys(subset for figures in columns.values() for subset in figures)
    rows = [
        [Cell(subset), *(_build_accuracy_cell(figures.get(subset), path) for figures in columns.values())]
        for subset in subsets
    ]
    note = (
        "Per cent of instances whose negative picture the attacker names; chance is 50 and a tie counts half. Brackets: 95 % "
        "interval. Coloured: the interval is above 50, not corrected for the number of cells. "
        "features: a learned combination of hand-made ones; network: a small one on pixels; siamese: one that compares the two "
        "pictures; all judged on pictures that they have not learned from. Too few: a type of fewer than "
        f"{format_count(get_number(raw, 'fewest', where=path))} groups of pictures is not attacked, and nothing is known of it. The "
        "negative picture of add_obj shows an object more, which is what it is for."
    )
    return [TableBlock("", ("Subset", *columns), rows, note=note), _build_control_table(raw, path)]


def _build_control_table(raw: dict[str, Any], path: Path) -> TableBlock:
    """Return whether the attackers find a shortcut that was planted."""
    alone, joint = (get_value(raw, "planted", part, where=path) for part in ("pictures", "joint"))
    rows = [
        [
            Cell(name),
            _build_control_cell(alone[name], "accuracy", path),
            _build_control_cell(joint[name], "value", path),
        ]
        for name in alone
    ]
    note = (
        "Positive control: the same attackers on a copy of some instances whose negative pictures were all made darker by "
        f"{format_count(get_number(raw, 'planted', 'levels', where=path))} of 255 levels; GroupMatch with texts that tell. Chance is 50. "
        "Of an attacker that does not find this (marked), what it does not find above says nothing."
    )
    return TableBlock("A planted shortcut", ("Attacker", "Pictures", "GroupMatch"), rows, note=note)


def _build_control_cell(figure: Any, key: str, path: Path) -> Cell:
    """Return a figure of the positive control, marked where it is not shown to be above chance."""
    if not get_number(figure, "n", where=path):
        return Cell("too few to attack", mark="muted")
    share, low, high, n = (get_number(figure, name, where=path) for name in (key, "ci_low", "ci_high", "n"))
    return Cell(
        format_percent(share),
        f"{format_interval(low, high)} of {format_count(n)}",
        "" if low > 0.5 else "bad",
    )


def build_joint_tables(data: Path) -> list[Block]:
    """Return what the joint attacker reaches by GroupMatch, in each form."""
    forms, path, _ = _read_forms(data)
    rows = [
        [
            Cell(f"texts × {attacker}", TITLES.get(form, form)),
            *(_build_metric_cell(figures, m, s, path) for _, m, s in JOINT),
        ]
        for form, of_form in forms.items()
        for attacker, figures in get_value(of_form, "joint", where=path).items()
    ]
    if not rows:
        return []
    chance = [Cell(format_percent(METRICS[metric].chance), mark="muted") for _, metric, _ in JOINT]
    note = (
        "An attacker that sees an instance's captions and pictures, but not which belong together: how much truer one caption "
        "looks by itself (mean of the blind scorers after refinement) times how much truer one picture does. It matches them "
        "right where it tells both or neither, by chance in 50. Of one who sees the whole instance, I2T, T2I and Group hold "
        "exactly where GroupMatch does. What a model reaches in GroupMatch beyond this row takes a look at both."
    )
    head = ("Attacker", *(title for title, _, _ in JOINT))
    return [
        TableBlock(
            "Without the relation of text and picture",
            head,
            [[Cell("chance", mark="muted"), *chance], *rows],
            note=note,
        )
    ]


def _read_forms(data: Path) -> tuple[dict[str, Any], Path, dict[str, Any]]:
    """Return the figures of each form, where they stand, and all that stands there."""
    path = data / "image_scores/figures.json"
    raw = read_json(path)
    return get_value(raw, "forms", where=path), path, raw


def _build_accuracy_cell(figure: Any, path: Path) -> Cell:
    """Return an accuracy with its interval; that a subset was not attacked where it was not."""
    if figure is None:
        return Cell(MISSING)
    if not get_number(figure, "n", where=path):
        return Cell("too few to attack", mark="muted")
    share, low, high, n = (
        get_number(figure, key, where=path) for key in ("accuracy", "ci_low", "ci_high", "n")
    )
    return Cell(
        format_percent(share),
        f"{format_interval(low, high)} of {format_count(n)}",
        "bad" if low > 0.5 else "",
    )


def _build_metric_cell(figures: Any, metric: str, subset: str, path: Path) -> Cell:
    """Return the value of a metric on a subset with its interval."""
    of_metric = get_value(figures, metric, where=path)
    if subset not in of_metric:
        return Cell(MISSING)
    share, low, high = (
        get_number(of_metric, subset, key, where=path) for key in ("value", "ci_low", "ci_high")
    )
    return Cell(format_percent(share), format_interval(low, high))
