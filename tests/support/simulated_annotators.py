"""Annotators with known error rates and habits, who use the page in a real browser by its keys."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from caramel.annotation.items import Item, format_answer, order_item

Habit = Callable[
    [random.Random, int, Sequence[str], str], int
]  # (…, number, values in order, truth) -> position


@dataclass(eq=False)
class Simulated:
    """One annotator: its habit, and what it meant to answer."""

    name: str
    habit: Habit
    meant: dict[str, str] = field(default_factory=dict)

    def work(
        self,
        page: Any,
        items: Mapping[str, Item],
        truth: Mapping[str, Mapping[str, str]],
        seed: int,
        keys: Mapping[str, str],
        most: int | None = None,
    ) -> None:
        """Answer items by keys until the page says that all is done, or so many are.

        Args:
            truth: right answer by item_id and question.
            keys: item_id by the key that the page has.
        """
        draws = random.Random(self.name)
        while most is None or len(self.meant) < most:
            page.wait_for_selector("#options button, h2:text('All done')")
            key = page.evaluate("queue.length ? queue[0].item_key : null")
            if key is None:
                return
            name = keys[key]
            answers = {}
            for question in order_item(items[name], self.name, seed).questions:
                values = [option.value for option in question.options]
                position = self.habit(draws, len(self.meant), values, truth[name][question.name])
                answers[question.name] = values[position]
                page.keyboard.press(str(position + 1))
            self.meant[name] = format_answer(answers)
            while page.evaluate("key => queue.length > 0 && queue[0].item_key === key", key):
                page.wait_for_timeout(5)
            if page.evaluate("queue.length === 0"):
                page.wait_for_timeout(50)


def erring(rate: float) -> Habit:
    """Return the habit of choosing wrongly at a rate."""

    def choose(draws: random.Random, number: int, values: Sequence[str], truth: str) -> int:
        wrong = [position for position, value in enumerate(values) if value != truth]
        return draws.choice(wrong) if draws.random() < rate else values.index(truth)

    return choose


def tired(habit: Habit, after: int) -> Habit:
    """Return a habit of which random clicks are left from the item of a number on."""

    def choose(draws: random.Random, number: int, values: Sequence[str], truth: str) -> int:
        return (habit if number < after else choose_at_random)(draws, number, values, truth)

    return choose


def choose_left(draws: random.Random, number: int, values: Sequence[str], truth: str) -> int:
    """Always take the first option."""
    return 0


def choose_at_random(draws: random.Random, number: int, values: Sequence[str], truth: str) -> int:
    """Take any option."""
    return draws.randrange(len(values))
