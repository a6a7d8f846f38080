"""Stop trials of a grid early if others do better: asynchronous successive halving (ASHA) of Ray Tune.

A trial reports its metric at its checkpoints. After ``first`` checkpoints, and each time after ``factor``
times as many, it continues only if it is among the best 1 / ``factor`` of the trials that have reached this
checkpoint before it (Li et al., MLSys 2020). So which trials stop depends on the order in which they arrive,
and may differ in a repetition.
"""

from __future__ import annotations

from typing import Any, NamedTuple

CHECKPOINT = "checkpoint"  # reported besides the metric: the number of checkpoints reached


class Halving(NamedTuple):
    """Rule for which trials continue.

    Attributes:
        metric: name of the metric; larger is better.
        first: number of checkpoints before the first trial stops.
        factor: one in this number of trials continues.
        most: number of checkpoints of a trial.
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
    """Report a trial's checkpoint from within it. If the trial is stopped, this raises SystemExit."""
    from ray import tune

    tune.report({CHECKPOINT: checkpoint, metric: value})
