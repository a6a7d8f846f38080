"""What attackers make of the benchmark's pictures: alone, and with the texts but not their relation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from caramel.benchmarks.metrics import METRICS
from caramel.report.blocks import MISSING, Block, Cell, NoteBlock, TableBlock, count, interval, percent
from caramel.report.inputs import number, read_json, value

JOINT = (
    ("SugarCrepe", "accuracy", "all"),
    ("I2T", "i2t", "all"),
    ("T2I", "t2i", "all"),
    ("Group", "group", "all"),
    ("Group without add", "group", "without_add"),
    ("GroupMatch", "group_match", "all"),
)
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
        "features: a learned combination of hand-made ones; network: a small one on pixels; both judged on pictures that they "
        "have not learned from. Too few: a type of fewer than "
        f"{count(number(raw, 'fewest', where=path))} groups of pictures is not attacked, and nothing is known of it. The "
        "negative picture of add_obj shows an object more, which is what it is for."
    )
    return [TableBlock("", ("Subset", *columns), rows, note=note)]


def joint_tables(data: Path) -> list[Block]:
    """Return what the joint attacker reaches by the metrics of the models' table, in each form."""
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
        "An attacker that sees caption and picture, but not whether they belong together: the product of how true "
        "the caption looks by itself (mean of the blind scorers after refinement) and how true the picture does. Who can "
        "tell neither has accuracy 50, I2T and T2I 25, Group 12.5, GroupMatch 50. What a model reaches beyond this row "
        "takes a look at both."
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
