"""Which models cannot be scored on which benchmarks: seen from the spec's family, before any work."""

from __future__ import annotations

from caramel.benchmarks.metrics import METRICS
from caramel.evaluation.scores.multiple_choice import can_ask_choices
from caramel.interfaces.benchmark import ABSENT, Benchmark, Comparisons, Task
from caramel.models.specs import get_family

MOST_PAIRS = 10_000_000  # of a matcher, each a pass of its own: Flickr30K has 5 million, COCO 125


def find_incompatibility(model: str, benchmark: Benchmark, task: Task) -> str | None:
    """Return why the model of a spec cannot be scored on the task of a benchmark, None if it can.

    Raises:
        BackendError: the spec's family cannot be told.
    """
    form = get_family(model).form
    reason = None
    if form == "chooser" and not can_ask_choices(task):
        reason = (
            "it is asked to choose among captions, and not all instances are an image, a caption and a "
            "negative caption"
        )
    if form == "text" and not _has_texts_alone(benchmark, task):
        reason = "it scores texts with texts, and no metric there is of texts alone"
    if form == "matcher" and (count := count_pairs(task)) > MOST_PAIRS:
        reason = (
            f"it looks at each image with each text, which are {count:,} pairs, more than {MOST_PAIRS:,}; "
            f"a lower --limit has fewer"
        )
    return (
        reason and f"model {model!r} cannot be scored on {benchmark.name!r}: {reason}. Leave one of them out."
    )


def count_pairs(task: Task) -> int:
    """Return how many pairs of a text and an image the task compares, at most."""
    if isinstance(task, Comparisons):
        rows = task.rows
        images = (rows[["image", "negative_image"]] != ABSENT).sum(axis=1)
        texts = rows[["caption", "negative_caption", "caption2"]].notna().sum(axis=1)
        return int((images * texts).sum())
    n_candidates = sum(len(task.pools[pool]) for pool in task.rows["pool"])
    return min(n_candidates, len(task.images) * len(task.texts)) * max(map(len, task.texts), default=1)


def _has_texts_alone(benchmark: Benchmark, task: Task) -> bool:
    """Return whether a metric of the benchmark is of similarities of texts, and an instance has them."""
    if not isinstance(task, Comparisons) or not task.rows["caption2"].notna().any():
        return False
    compared = [METRICS[name].greater for name in benchmark.metrics if name in METRICS]
    return any(column.startswith("t_") for pairs in compared for pair in pairs for column in pair)
