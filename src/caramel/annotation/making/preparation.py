"""Turn built items into those of a task: sample them, leave out broken images, mark gold items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from caramel.annotation.items import Item, parse_expected_answer
from caramel.errors import DataError, format_items
from caramel.io.image_codec import check_image
from caramel.io.readers import iter_csv_rows
from caramel.utils.hashing import compute_stable_keys

ROLES = ("gold", "qualification")


@dataclass(frozen=True)
class PreparedItems:
    """The items of a task, the roles of those with known answers, and what was left out."""

    items: list[Item]
    roles: dict[str, str]
    broken: list[str]  # messages


def prepare_items(
    items: Sequence[Item],
    *,
    count: int | None,
    seed: int,
    gold: Path | None,
    read_image: Callable[[str], bytes],
) -> PreparedItems:
    """Return the items of a task.

    Args:
        count: number of items to sample besides gold and qualification items; None takes all.
        gold: CSV with columns item_id, answer, role; see ``read_gold``.
        read_image: returns an encoded image by its key.

    Raises:
        DataError: there are no items, all have broken images, or the gold file is wrong.
    """
    if not items:
        raise DataError("There are no items: the tables hold no rows for this task.")
    known = read_gold(gold, items) if gold else {}
    free = [item for item in items if item.item_id not in known]
    keys = compute_stable_keys([item.item_id for item in free], seed)
    sampled = [free[i] for i in sorted(keys.argsort()[:count].tolist())]
    marked = [replace(item, gold=known[item.item_id][0]) for item in items if item.item_id in known]
    whole, broken = [], []
    for item in [*marked, *sampled]:
        problem = _find_broken_image(item, read_image)
        if problem:
            broken.append(f"item {item.item_id!r}: {problem}")
        else:
            whole.append(item)
    if not whole:
        raise DataError(f"Each of the {len(broken)} items has a broken image:\n{format_items(broken)}")
    return PreparedItems(
        whole, {item.item_id: known[item.item_id][1] for item in whole if item.item_id in known}, broken
    )


def read_gold(path: Path, items: Sequence[Item]) -> dict[str, tuple[str, str]]:
    """Return expected answer and role (`gold` or `qualification`) by item of a CSV file.

    Raises:
        DataError: a row names an unknown item, an answer that the item does not have, another role, or an item twice.
    """
    by_id = {item.item_id: item for item in items}
    known: dict[str, tuple[str, str]] = {}
    for where, row in iter_csv_rows(path, ("item_id", "answer", "role")):
        name, answer, role = row["item_id"], row["answer"], row["role"]
        if name not in by_id:
            raise DataError(f"{where}: the task has no item {name!r}.")
        if name in known:
            raise DataError(f"{where}: item {name!r} occurs twice.")
        if role not in ROLES:
            raise DataError(f"{where}: the role must be one of {', '.join(ROLES)}, not {role!r}.")
        known[name] = parse_expected_answer(by_id[name], answer, where), role
    return known


def _find_broken_image(item: Item, read_image: Callable[[str], bytes]) -> str | None:
    """Return what is wrong with the first broken image of an item, or None."""
    for key in sorted(item.list_images()):
        try:
            check_image(read_image(key), key)
        except DataError as error:
            return str(error)
    return None
