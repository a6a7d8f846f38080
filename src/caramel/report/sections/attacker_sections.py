"""What attackers make of the benchmark's pictures: alone, and with the texts but not their relation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from caramel.benchmarks.metrics import METRICS
from caramel.report.blocks import MISSING, Block, Cell, NoteBlock, TableBlock, count, interval, percent
from caramel.report.inputs import number, read_json, value

JOINT = (("GroupMatch", "group_match", "all"), ("GroupMatch without add", "group_match", "without_add"))
TITLES = {"instances": "the benchmark", "instances_source": "positives of the source"}


def pictures_section(data: Path) -> list[Block]:
    """Return how often attackers that see an instance's two pictures alone tell which is the negative's, form by form."""
    forms, path, raw = _forms(data)
    if not forms:
        return [NoteBlock("There is no instance, so that nothing was attacked.", "skipped")]
    columns = {
        f"{TITLES.get(form, form)}: {attacker}": figures
        for form, of_form in forms.items()
        for attacker, figures in value(of_form, "pictures", where=path).items()
    }
    subsets = dict.fromkeys(subset for figures in columns.values() for subset in figures)
    rows = [
        [Cell(subset), *(_told(figures.get(subset), path) for figures in columns.values())]
        for subset in subsets
    ]
    note = (
        "Per cent of instances whose negative picture the attacker names; chance is 50 and a tie counts half. Brackets: 95 % "
        "interval. Coloured: the interval is above 50, not corrected for the number of cells. "
        "features: a learned combination of hand-made ones; network: a small one on pixels; siamese: one that compares the two "
        "pictures; all judged on pictures that they have not learned from. Too few: a type of fewer than "
        f"{count(number(raw, 'fewest', where=path))} groups of pictures is not attacked, and nothing is known of it. The "
        "negative picture of add_obj shows an object more, which is what it is for."
    )
    return [TableBlock("", ("Subset", *columns), rows, note=note), _control(raw, path)]


def _control(raw: dict[str, Any], path: Path) -> TableBlock:
    """Return whether the attackers find a shortcut that was planted."""
    alone, joint = (value(raw, "planted", kind, where=path) for kind in ("pictures", "joint"))
    rows = [
        [Cell(name), _found(alone[name], "accuracy", path), _found(joint[name], "value", path)]
        for name in alone
    ]
    note = (
        "Positive control: the same attackers on a copy of some instances whose negative pictures were all made darker by "
        f"{count(number(raw, 'planted', 'levels', where=path))} of 255 levels; GroupMatch with texts that tell. Chance is 50. "
        "Of an attacker that does not find this (marked), what it does not find above says nothing."
    )
    return TableBlock("A planted shortcut", ("Attacker", "Pictures", "GroupMatch"), rows, note=note)


def _found(figure: Any, key: str, path: Path) -> Cell:
    """Return a figure of the positive control, marked where it is not shown to be above chance."""
    if not number(figure, "n", where=path):
        return Cell("too few to attack", mark="muted")
    share, low, high, n = (number(figure, name, where=path) for name in (key, "ci_low", "ci_high", "n"))
    return Cell(percent(share), f"{interval(low, high)} of {count(n)}", "" if low > 0.5 else "bad")


def joint_tables(data: Path) -> list[Block]:
    """Return what the joint attacker reaches by GroupMatch, in each form."""
    forms, path, _ = _forms(data)
    rows = [
        [
            Cell(f"texts × {attacker}", TITLES.get(form, form)),
            *(_reached(found, m, s, path) for _, m, s in JOINT),
        ]
        for form, of_form in forms.items()
        for attacker, found in value(of_form, "joint", where=path).items()
    ]
    if not rows:
        return []
    chance = [Cell(percent(METRICS[metric].chance), mark="muted") for _, metric, _ in JOINT]
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


def _forms(data: Path) -> tuple[dict[str, Any], Path, dict[str, Any]]:
    """Return the figures of each form, where they stand, and all that stands there."""
    path = data / "image_scores/figures.json"
    raw = read_json(path)
    return value(raw, "forms", where=path), path, raw


def _told(figure: Any, path: Path) -> Cell:
    """Return an accuracy with its interval; that a subset was not attacked where it was not."""
    if figure is None:
        return Cell(MISSING)
    if not number(figure, "n", where=path):
        return Cell("too few to attack", mark="muted")
    share, low, high, n = (number(figure, key, where=path) for key in ("accuracy", "ci_low", "ci_high", "n"))
    return Cell(percent(share), f"{interval(low, high)} of {count(n)}", "bad" if low > 0.5 else "")


def _reached(found: Any, metric: str, subset: str, path: Path) -> Cell:
    """Return the value of a metric on a subset with its interval."""
    of_metric = value(found, metric, where=path)
    if subset not in of_metric:
        return Cell(MISSING)
    share, low, high = (number(of_metric, subset, key, where=path) for key in ("value", "ci_low", "ci_high"))
    return Cell(percent(share), interval(low, high))
