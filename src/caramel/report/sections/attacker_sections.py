"""Build the sections on attackers: images alone, and images and texts without their relation."""

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
    """Return how often attackers that see only an instance's two images find the negative image, by form."""
    forms, path, raw = _read_forms(data)
    if not forms:
        return [NoteBlock("There are no instances, so no attack was run.")]
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
        "Per cent of instances in which the attacker finds the negative image; chance is 50 and a tie counts half. Brackets: 95 % "
        "interval. Coloured: the interval is above 50, not corrected for the number of cells. "
        "Attackers: features, a learned combination of hand-made features; network, a small network on pixels; siamese, a network "
        "that compares the two images. All are tested on held-out images. Too few: a type with fewer than "
        f"{format_count(get_number(raw, 'fewest', where=path))} groups of images is not attacked, so its bias is unknown. The "
        "negative image of add_obj shows one more object by design."
    )
    return [TableBlock("", ("Subset", *columns), rows, note=note), _build_control_table(raw, path)]


def _build_control_table(raw: dict[str, Any], path: Path) -> TableBlock:
    """Return whether the attackers find a planted shortcut."""
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
        "Positive control: the same attackers on a copy of some instances. All negative images of the copy are darker by "
        f"{format_count(get_number(raw, 'planted', 'levels', where=path))} of 255 levels, and for GroupMatch the texts have a shortcut too. Chance is 50. "
        "If an attacker misses this shortcut (marked), its failure to find one above means nothing."
    )
    return TableBlock("A planted shortcut", ("Attacker", "Images", "GroupMatch"), rows, note=note)


def _build_control_cell(figure: Any, key: str, path: Path) -> Cell:
    """Return a value of the positive control, marked if it is not significantly above chance."""
    if not get_number(figure, "n", where=path):
        return Cell("too few to attack", mark="muted")
    share, low, high, n = (get_number(figure, name, where=path) for name in (key, "ci_low", "ci_high", "n"))
    return Cell(
        format_percent(share),
        f"{format_interval(low, high)} of {format_count(n)}",
        "" if low > 0.5 else "bad",
    )


def build_joint_tables(data: Path) -> list[Block]:
    """Return the GroupMatch of the joint attacker, in each form."""
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
        "This attacker sees an instance's captions and images, but not which belong together. Its score is the gap between the "
        "captions (mean of the blind scorers after refinement) times the gap between the images. It matches them "
        "correctly if both gaps have the right sign or both the wrong one; chance is 50. For an attacker that sees the whole "
        "instance, I2T, T2I and Group hold exactly when GroupMatch does. Exceeding this row in GroupMatch takes a look at both."
    )
    head = ("Attacker", *(title for title, _, _ in JOINT))
    return [
        TableBlock(
            "Without the relation of text and image",
            head,
            [[Cell("chance", mark="muted"), *chance], *rows],
            note=note,
        )
    ]


def _read_forms(data: Path) -> tuple[dict[str, Any], Path, dict[str, Any]]:
    """Return the values of each form, the file's path, and its whole content."""
    path = data / "image_scores/figures.json"
    raw = read_json(path)
    return get_value(raw, "forms", where=path), path, raw


def _build_accuracy_cell(figure: Any, path: Path) -> Cell:
    """Return an accuracy with its interval, or a note that the subset was not attacked."""
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
    """Return a metric's value on a subset with its interval."""
    of_metric = get_value(figures, metric, where=path)
    if subset not in of_metric:
        return Cell(MISSING)
    share, low, high = (
        get_number(of_metric, subset, key, where=path) for key in ("value", "ci_low", "ci_high")
    )
    return Cell(format_percent(share), format_interval(low, high))
