"""Prompted multiple choice: a model is shown an image and its captions, and says which one it means.

As in SugarCrepe++ (Dumpala et al. 2024, 3.3 and G.1): of two true captions P and the negative N the model
finds the one that is not true, from three options or from four, with ``none`` as the last. Where the
instances have no paraphrase, it finds the true one of P and N, from two options or three. Every order of P
and N is asked (P1 always stands before P2) in every wording, so that the spread over both can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import pandas as pd

from caramel import tables
from caramel.errors import BackendError, DataError
from caramel.evaluation.image_files import ImageFile, encoded
from caramel.evaluation.metrics import Outcomes
from caramel.evaluation.replies import ask
from caramel.evaluation.scoring import Run
from caramel.evaluation.store import Store, pair_key
from caramel.evaluation.summary import judge
from caramel.evaluation.tasks import ABSENT, Benchmark, Comparisons, Task
from caramel.evaluation.wordings import WORDINGS, Form, chosen, prompt
from caramel.models.protocols import Question
from caramel.models.specs import open_model

ORDERS: Mapping[Form, tuple[str, ...]] = {"odd": ("NPP", "PNP", "PPN"), "true": ("PN", "NP")}
RIGHT: Mapping[Form, str] = {"odd": "N", "true": "P"}
Shown = Literal["positive", "negative"]


class _Asked(NamedTuple):
    """One question of an instance."""

    instance: Mapping[Any, Any]  # row of the task
    shown: Shown
    image: int  # place among the task's images
    form: Form
    order: str
    wording: str
    captions: tuple[str, ...]

    @property
    def none(self) -> bool:
        return self.order.endswith("0")

    @property
    def prompt(self) -> str:
        return prompt(self.form, self.wording, self.captions, none=self.none)

    def outcome(self, reply: str | None) -> str:
        """Return what a reply means, one of ``tables.OUTCOMES``."""
        if reply is None:
            return "failed"
        place = chosen(reply, self.captions, none=self.none)
        if place is None:
            return "unparseable"
        return {RIGHT[self.form]: "right", "0": "none"}.get(self.order[place], "wrong")


def answers(task: Task, image_keys: Sequence[bytes], run: Run, *, benchmark: str) -> pd.DataFrame:
    """Return the ``answers`` of one model on one task; replies that were had before are not asked for again.

    Where any instance lacks a paraphrase, paraphrases are left out of all. The negative image of an instance
    is asked about as well, its own caption being P there, but not beside a paraphrase: of three captions two
    would be false of it.

    Args:
        task: comparisons of captions.
        image_keys: content key of each of the task's images, from ``check_images``.
        run: how the model is run.
        benchmark: name for the column of that name.

    Raises:
        BackendError: the task does not compare captions, or the endpoint does not answer.
        DataError: an image cannot be read.
    """
    model = open_model(run.model, run.device, run.precision)
    asked = list(_asked(_compared(task, benchmark)))
    keys = [pair_key(image_keys[each.image], each.prompt).hex() for each in asked]
    questions = {
        key: Question(each.prompt, partial(_read, task.images[each.image]))
        for key, each in zip(keys, asked, strict=True)
    }
    replies = ask(model, questions, Store(run.store, model.identity).folder / "replies")
    rows = [
        {
            "instance_id": each.instance["instance_id"],
            "model": model.name,
            "benchmark": benchmark,
            "image_id": each.instance["image_id"],
            "subsets": each.instance["subsets"],
            "image": each.shown,
            "ways": len(each.order),
            "order": each.order,
            "wording": each.wording,
            "outcome": each.outcome(replies.get(key)),
            "reply": replies.get(key),
        }
        for key, each in zip(keys, asked, strict=True)
    ]
    return tables.frame(tables.ANSWERS, rows)


def askable(task: Task) -> bool:
    """Return whether all instances are an image, a caption and a negative caption."""
    if not isinstance(task, Comparisons):
        return False
    rows = task.rows
    lacking = rows[["caption", "negative_caption"]].isna().to_numpy().any() or (rows["image"] == ABSENT).any()
    return not lacking


def _compared(task: Task, benchmark: str) -> pd.DataFrame:
    """Return the task's rows if all of them are captions for an image."""
    if not askable(task):
        raise BackendError(
            f"Benchmark {benchmark!r} cannot be asked by choice: not all of its instances are an image, a "
            f"caption and a negative caption. Leave it or the chat model out."
        )
    return task.rows


def _asked(rows: pd.DataFrame) -> Iterator[_Asked]:
    """Yield all questions on all instances."""
    form: Form = "odd" if rows["caption2"].notna().all() else "true"
    for row in rows.to_dict("records"):
        caption, negative_caption = row["caption"], row["negative_caption"]
        pools: list[tuple[Shown, int, list[str], str]]
        if form == "odd":
            pools = [("positive", row["image"], [caption, row["caption2"]], negative_caption)]
        else:
            pools = [("positive", row["image"], [caption], negative_caption)]
            if row["negative_image"] != ABSENT:
                pools.append(("negative", row["negative_image"], [negative_caption], caption))
        for shown, image, true, negative in pools:
            for order in (order + none for none in ("", "0") for order in ORDERS[form]):
                rest = iter(true)
                captions = tuple(next(rest) if sign == "P" else negative for sign in order.strip("0"))
                for wording in WORDINGS[form]:
                    yield _Asked(row, shown, image, form, order, wording, captions)


def _read(image: ImageFile) -> bytes:
    return encoded([image])[0]


def summarise_answers(
    answers: pd.DataFrame, benchmarks: Mapping[str, Benchmark], *, bootstrap: int, seed: int
) -> pd.DataFrame:
    """Return table ``metrics`` for every model and benchmark in ``answers``.

    With W ways, of each instance: ``choice_Wway`` is the share of right answers over orders and wordings,
    ``…_all_orders`` the share of wordings in which the answers to all orders are right, ``…_unparseable`` the
    share of replies that name no option. An instance with a failed question is unscored. For the negative
    image they are named ``choice_Wway_negative_image…``, and ``choice_Wway_both_images`` is the share of
    orders and wordings that are right for both images. The spread is ``choice_Wway`` in the subsets ``order:…``
    and ``wording:…``.

    Args:
        answers: table ``answers``.
        benchmarks: name -> benchmark: its macro subsets.
        bootstrap: number of resamples.
        seed: of the bootstrap.

    Raises:
        DataError: an instance lacks answers that others have, or its rows do not agree.
    """
    parts = []
    for (model, name), rows in answers.groupby(["model", "benchmark"], sort=False):
        _check(rows, str(model))
        instances = rows.drop_duplicates("instance_id").set_index("instance_id")[["image_id", "subsets"]]
        whole, spread = _values(rows)
        nothing: Any = [[] for _ in range(len(instances))]
        alone = instances.assign(subsets=nothing)
        macro = benchmarks[str(name)].macro
        judged = [
            judge(instances, _outcomes(whole, instances.index), macro, bootstrap, seed),
            judge(alone, _outcomes(spread, instances.index), macro, bootstrap, seed),
        ]
        judged[1][["metric", "subset"]] = judged[1]["metric"].tolist()
        parts += [part.assign(model=str(model), benchmark=str(name)) for part in judged]
    return tables.frame(tables.METRICS, pd.concat(parts, ignore_index=True) if parts else [])


def _check(answers: pd.DataFrame, model: str) -> None:
    """Raise a DataError unless all instances were asked the same, each of one image."""
    odd = answers.loc[answers["order"].str.len() != answers["ways"], "instance_id"]
    several = answers.groupby("instance_id")["image_id"].transform("nunique") > 1
    asked = answers.groupby(["image", "ways", "instance_id"])["outcome"].transform("size")
    most = asked.groupby([answers["image"], answers["ways"]]).transform("max")
    for names, what in (
        (odd, "have an order of options that is not of their number"),
        (answers.loc[several, "instance_id"], "have several images"),
        (answers.loc[asked < most, "instance_id"], "lack answers that others have"),
    ):
        if len(names):
            found = list(dict.fromkeys(names))
            raise DataError(
                f"Answers of model {model!r}: {len(found)} instances {what}, the first is {found[0]!r}. "
                f"Run `caramel eval` again: replies that were had are kept."
            )


def _values(answers: pd.DataFrame) -> tuple[dict[Any, pd.Series], dict[Any, pd.Series]]:
    """Return each instance's value by metric, and by (metric, subset) of the spread."""
    hit = (answers["outcome"] == "right").astype(float).mask(answers["outcome"] == "failed")
    odd = (answers["outcome"] == "unparseable").astype(float).mask(hit.isna())
    rows = answers.assign(hit=hit, unparseable=odd)
    plain, strict, unclear, spread = {}, {}, {}, {}
    for (ways, shown), part in rows.groupby(["ways", "image"], sort=False):
        metric = f"choice_{ways}way" + ("_negative_image" if shown == "negative" else "")
        plain[metric] = _mean(part, "hit")
        strict[f"{metric}_all_orders"] = _mean(_worst(part, ["instance_id", "wording"]), "hit")
        unclear[f"{metric}_unparseable"] = _mean(part, "unparseable")
        for column in ("order", "wording"):
            for value in part[column].unique().tolist():
                spread[metric, f"{column}:{value}"] = _mean(part[part[column] == value], "hit")
    for ways in rows["ways"].unique().tolist():
        part = rows[rows["ways"] == ways]
        both = part[part.groupby("instance_id")["image"].transform("nunique") == 2]
        if len(both):
            pairs = _worst(both, ["instance_id", "order", "wording"])
            strict[f"choice_{ways}way_both_images"] = _mean(pairs, "hit")
    return {**plain, **strict, **unclear}, spread


def _worst(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return one row per key: whether all its answers are right; NaN where one failed."""
    return _complete(rows, keys, "hit", "min").reset_index()


def _mean(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return each instance's mean; NaN where an answer failed."""
    return _complete(rows, ["instance_id"], column, "mean")


def _complete(rows: pd.DataFrame, keys: list[str], column: str, how: str) -> pd.Series:
    groups = rows.groupby(keys, sort=False)[column]
    return groups.agg(how).where(groups.count() == groups.size())


def _outcomes(values: Mapping[Any, pd.Series], instances: pd.Index) -> Outcomes:
    """Return the values as outcomes of the instances; none is a tie."""
    hits = {name: column.reindex(instances) for name, column in values.items()}
    frame = pd.DataFrame(hits, index=instances)
    return Outcomes(frame, frame.isna() & False)
