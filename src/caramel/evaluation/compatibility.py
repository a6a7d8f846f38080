"""Check from a model spec's family, before any work, whether the model can be scored on a benchmark."""

from __future__ import annotations

from caramel.benchmarks.metrics import METRICS
from caramel.evaluation.scores.demonstrations import find_small_group
from caramel.evaluation.scores.joint_columns import has_paraphrases
from caramel.evaluation.scores.multiple_choice import can_ask_choices, can_ask_wording
from caramel.evaluation.scores.published_wordings import PUBLISHED_WORDINGS
from caramel.interfaces.benchmark import ABSENT, Benchmark, Comparisons, Task
from caramel.models.chat.settings import split_wording
from caramel.models.specs import get_family, parse_spec

# Largest number of pairs for a matcher, with one forward pass per pair; Flickr30K has 5 million pairs, COCO 125 million.
MOST_PAIRS = 10_000_000


def find_incompatibility(model: str, benchmark: Benchmark, task: Task) -> str | None:
    """Return the reason why a model cannot be scored on a benchmark's task; None if it can.

    Raises:
        BackendError: the spec's family cannot be determined.
    """
    form = get_family(model).form
    reason, advice = None, "Leave one of them out."
    if form == "chooser" and not can_ask_choices(task):
        reason = (
            "it chooses among captions, and some instances are not an image, a caption and a negative caption"
        )
    wording = split_wording(parse_spec(model).target)[1] if form == "chooser" else ""
    if wording and wording not in PUBLISHED_WORDINGS:
        reason = f"its wording {wording!r} is not one of {', '.join(PUBLISHED_WORDINGS)}"
        advice = "Give one of these."
    elif wording and not can_ask_wording(task, wording):
        reason = f"its wording {wording!r} is about two true captions, and some instances do not have these"
    elif wording:
        reason = find_small_group(task.rows, wording)
    if form == "joint" and not has_paraphrases(task):
        reason = (
            "it compares an image with two true captions and a negative, and some instances do not have these"
        )
    if form == "text" and not _has_texts_alone(benchmark, task):
        reason = "it compares texts with texts, and the benchmark has no metric on texts alone"
    if form == "matcher" and (count := count_pairs(task)) > MOST_PAIRS:
        reason = (
            f"it processes every pair of an image and a text. These are {count:,} pairs, more than {MOST_PAIRS:,}; "
            f"a lower --limit gives fewer"
        )
    return reason and f"model {model!r} cannot be scored on {benchmark.name!r}: {reason}. {advice}"


def count_pairs(task: Task) -> int:
    """Return an upper bound on the number of (text, image) pairs that the task compares."""
    if isinstance(task, Comparisons):
        rows = task.rows
        images = (rows[["image", "negative_image"]] != ABSENT).sum(axis=1)
        texts = rows[["caption", "negative_caption", "caption2"]].notna().sum(axis=1)
        return int((images * texts).sum())
    n_candidates = sum(len(task.pools[pool]) for pool in task.rows["pool"])
    return min(n_candidates, len(task.images) * len(task.texts)) * max(map(len, task.texts), default=1)


def _has_texts_alone(benchmark: Benchmark, task: Task) -> bool:
    """Return whether a metric of the benchmark compares texts with texts, and an instance has such texts."""
    if not isinstance(task, Comparisons) or not task.rows["caption2"].notna().any():
        return False
    compared = [METRICS[name].greater for name in benchmark.metrics if name in METRICS]
    return any(column.startswith("t_") for pairs in compared for pair in pairs for column in pair)
