"""Trials of a grid that end early where others do better: asynchronous successive halving (ASHA), Ray Tune's.

A trial says at its checkpoints what it has reached. After ``first`` of them, and each time ``factor`` times as many, it
goes on only if it is among the best one in ``factor`` of those that got there before it (Li et al., MLSys 2020). So which
trials end early is a matter of the order in which they arrive, and is not the same when it is done again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

CHECKPOINT = "checkpoint"  # what a trial reports beside the metric: how many it has reached


class Halving(NamedTuple):
    """Which trials go on.

    Attributes:
        metric: larger is better.
        first: checkpoints before the first trial ends.
        factor: of those that got so far one in so many goes on.
        most: checkpoints of a trial.
    """

    metric: str
    first: int
    factor: int
    most: int

    def build_scheduler(self) -> Any:
        """Return Ray Tune's scheduler."""
        from ray.tune.schedulers import ASHAScheduler

        return ASHAScheduler(
            time_attr=CHECKPOINT,
            metric=self.metric,
            mode="max",
            max_t=self.most,
            grace_period=self.first,
            reduction_factor=self.factor,
        )


def report_checkpoint(checkpoint: int, metric: str, value: float) -> None:
    """Say in a trial what it has reached; where it is not to go on this raises SystemExit."""
    from ray import tune

    tune.report({CHECKPOINT: checkpoint, metric: value})
