"""What is known of a version without asking anyone: answers to the datasheet's questions from its tables, params and figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import pandas as pd

from caramel.release.publishing.card import Facts
from caramel.release.publishing.contents import Contents
from caramel.release.publishing.escaping import code, markdown
from caramel.release.publishing.licences import LICENCES
from caramel.release.publishing.metadata import About, Source
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.evaluation import METRICS
from caramel.schemas.llm import REPLIES
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES

DRAWN = {"world", "synthetic"}  # sources that show nothing but what a program drew
NOBODY = "It shows drawn shapes on plain backgrounds, and nothing of people."


def param(params: Mapping[str, Any], key: str) -> Any:
    """Return a value of the params by its dotted key, None where there is none."""
    found: Any = params
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def all_drawn(facts: Facts) -> bool:
    """Return whether nothing in it comes from outside of this program: the world's pictures, and models taught on them alone."""
    params = facts.pinned.params
    taught = param(params, "train_generator.backend") == "pixart" or "synthetic" not in facts.sources
    written = {param(params, "negatives.backend"), param(params, "negatives.paraphrases")} <= {"world", None}
    return set(facts.sources) <= DRAWN and taught and written and param(params, "scenes.source") == "world"


def known(facts: Facts, contents: Contents) -> dict[int, str]:
    """Return number of a question -> answer in Markdown, of those that can be answered."""
    about, pinned = facts.about, facts.pinned
    rejects = contents.rejects()
    found = {
        1: "To measure whether models that match images and texts heed how things are composed, and not only which things "
        "are there: each caption has a hard negative that differs by one change. "
        + markdown(about.description or ""),
        5: "An image with a caption that is true of it and a hard negative that is false of it; where there is one, a "
        "second true caption, and an image of which the hard negative is true. Subtypes are those of SugarCrepe.",
        6: _counts(facts),
        8: _columns(facts),
        9: "`caption` and `caption2` are true of `image`, `negative_caption` is not; it is true of `negative_image`.",
        10: _missing(facts),
        11: "By names: rows of one `image_id` show one image; an `instance_id` begins with the name of its pair.",
        12: "Those of column `split`: "
        + "; ".join(f"{code(p.name)} {_listed(p.splits)}" for p in facts.parts)
        + ". An image belongs to one of them.",
        13: _noise(facts, contents),
        14: f"It stands alone: all pictures are in its files. Sources: {', '.join(map(code, facts.sources))}.",
        22: _acquired(facts, contents),
        23: _procedures(facts, contents),
        24: _sampled(facts),
        35: _filtered(rejects),
        36: f"The pin names every table that was made on the way, rejected rows with their reasons among them: "
        f"{len(rejects):,} rows. `caramel get` brings them back from the project's remote.",
        37: f"caramel {version('caramel')}, git commit {code(pinned.commit)} of the project; the params are in `pin.json`.",
        39: _used(contents),
        41: "Training with hard negatives; measuring retrieval in both directions; studying what blind models learn from texts.",
        42: "Whoever learns from the test split learns its shortcuts; question 13 has what noise is known.",
        43: "The test split is not for training, nor for choosing between models that are then reported on it.",
        57: "A version that was pinned is never overwritten; each release names its pin and its content hash.",
    }
    found |= _said(about, facts)
    if all_drawn(facts) and about.people is not True:
        found |= dict.fromkeys((15, 16, 17, 28), f"No. {NOBODY}")
        found[25] = "Nobody: programs drew the pictures and wrote the captions."
        found[26] = f"It was made by programs, and pinned on {pinned.created}; it shows no time."
    return found


def _said(about: About, facts: Facts) -> dict[int, str]:
    """Return what follows from who and what people named."""
    found = {}
    if about.authors:
        found[2] = "; ".join(
            markdown(a.name + (f", {a.affiliation}" if a.affiliation else "")) for a in about.authors
        )
    if about.url or about.doi:
        links = [about.url or "", f"https://doi.org/{about.doi}" if about.doi else ""]
        found[46] = "As a folder of files: " + ", ".join(markdown(link) for link in links if link)
    if licence := LICENCES.get(about.licence or ""):
        found[48] = f"{licence.name}: {licence.permits}."
    said = {name: about.sources.get(name, Source()).licence or "" for name in facts.sources}
    if all(name in LICENCES for name in said.values()):
        found[49] = "; ".join(f"{code(s)}: {name} ({LICENCES[name].permits})" for s, name in said.items())
    if about.people is not None:
        found[17] = "Yes." if about.people else "No."
    if about.contact:
        found[53] = markdown(about.contact)
    return found


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{markdown(name)} {count:,}" for name, count in counts.items())


def _counts(facts: Facts) -> str:
    parts = [
        f"{code(part.name)}: {sum(part.splits.values()):,} rows ({_listed(part.splits)})"
        for part in facts.parts
    ]
    return "; ".join([*parts, f"{len(facts.images):,} images"]) + ". `README.md` has them by subtype."


def _columns(facts: Facts) -> str:
    lines = []
    for part in facts.parts:
        columns = "; ".join(
            f"{code(name)} ({markdown(column.doc)})" for name, column in part.table.columns.items()
        )
        lines.append(f"{code(part.name)}: {columns}, and the pictures themselves")
    return ". ".join(lines) + "."


def _missing(facts: Facts) -> str:
    if facts.instances is None:
        return "Nothing."
    lacking = {
        name: int(facts.instances[name].isna().sum())
        for name in ("caption2", "negative_image_id", "compounds")
    }
    said = ", ".join(f"{code(name)} of {count:,}" for name, count in lacking.items() if count)
    return (
        f"{said} instances: nothing that passed the checks came out, or it is not known."
        if said
        else "Nothing."
    )


def _noise(facts: Facts, contents: Contents) -> str:
    """Return the measured errors of judges and the figures of blind attackers, as far as there are any."""
    found, images = [], contents.figures("data/filter_images/metrics.json")
    if drawn := images.get("candidates"):
        found.append(
            f"Of {drawn['n']:,} negative captions' first pictures {_percent(drawn['faithful'])} were faithful to their caption by the judge "
            f"{code(str(param(facts.pinned.params, 'filter_images.judge')))}; what was not is left out"
        )
    if (second := images.get("second_judge")) and "precision" in second:
        found.append(
            f"A second judge, {code(str(second['name']))}, is right on {_percent(second['precision'])} of what it takes and "
            f"takes {_percent(second['recall'])} of what is right, measured against the first"
        )
    blind = contents.figures("data/refine/blind.json")
    best = max((f["all"]["accuracy"], n) for n, f in blind.items()) if blind else None
    if best:
        found.append(
            f"Of the scorers that see no image, {code(best[1])} tells refined captions of all types from negatives best, in {best[0]:.1%}"
        )
    if facts.instances is not None:
        again = int(facts.instances.duplicated(["image_id", "caption", "negative_caption"]).sum())
        found.append(f"{again:,} instances repeat image and both captions of another")
    return ". ".join(found) + "." if found else "None was measured."


def _percent(share: float | None) -> str:
    """Return a share as text; of nothing there is none."""
    return "none (there are none)" if share is None else f"{share:.1%}"


def _acquired(facts: Facts, contents: Contents) -> str:
    """Return where images, captions, negatives and paraphrases come from, by the names of what made them."""
    images = facts.images["source"].value_counts()
    found = ["Images: " + _listed({str(name): int(count) for name, count in images.items()})]
    for what, table, path in (
        ("Hard negatives", NEGATIVES, "data/refine/negatives.parquet"),
        ("Paraphrases", PARAPHRASES, "data/refine/paraphrases.parquet"),
    ):
        rows = contents.table(table, path)
        if rows is not None and len(rows):
            counts = rows["generator"].value_counts()
            found.append(f"{what} by " + _listed({str(name): int(count) for name, count in counts.items()}))
    return ". ".join(found) + "."


def _procedures(facts: Facts, contents: Contents) -> str:
    """Return models with what determines them, prompts and judges."""
    params, found = facts.pinned.params, []
    replies = contents.table(REPLIES, "data/negatives/replies.parquet")
    if replies is not None and len(replies):
        for (model, prompt), rows in replies.groupby(["model", "prompt"]):
            found.append(
                f"Language model {code(str(model))} was asked by the prompt {code(str(prompt))}: {len(rows):,} replies"
            )
    if made := contents.figures("data/generator/generator.json"):
        found.append(
            f"Pictures were drawn by a diffusion pipeline of SHA-256 {code(str(made.get('sha256')))}"
        )
    candidates = contents.table(CANDIDATES, "data/synthesize/candidates.parquet")
    if candidates is not None and len(candidates):
        suffix = param(params, "synthesize.prompt_suffix") or ""
        settings = ", ".join(code(str(name)) for name in candidates["generator"].unique())
        found.append(
            f"Their prompt is the caption{f' and {code(suffix)}' if suffix else ''}, with {settings}: {len(candidates):,} candidates"
        )
    choices = contents.table(CHOICES, "data/filter_images/choices.parquet")
    if choices is not None:
        counts = choices["chosen_by"].dropna().value_counts()
        found.append(
            "Pictures were chosen by " + _listed({str(name): int(count) for name, count in counts.items()})
        )
    sections = {
        key: params.get(key) for key in ("scenes", "negatives", "refine", "filter_images") if key in params
    }
    found.append(
        f"All settings are in `pin.json`; of these stages they are {code(json.dumps(sections, sort_keys=True))}"
    )
    return ". ".join(found) + "."


def _sampled(facts: Facts) -> str:
    seeds = {
        key: param(facts.pinned.params, f"{key}.seed")
        for key in ("scenes", "negatives", "refine", "synthesize")
    }
    said = _listed({key: seed for key, seed in seeds.items() if isinstance(seed, int)})
    return f"By draws with recorded seeds{f' ({said})' if said else ''}, and by the filters of question 35."


def _filtered(rejects: pd.DataFrame) -> str:
    """Return what each filter dropped."""
    if rejects.empty:
        return "Nothing was dropped."
    counts = rejects.groupby(["stage", "reason"], sort=True).size()
    lines = [f"{code(stage)}: {markdown(reason)}: {count:,}" for (stage, reason), count in counts.items()]  # type: ignore[misc, has-type]
    return "Rows that were dropped, by stage and reason. " + "; ".join(lines) + "."


def _used(contents: Contents) -> str:
    metrics = contents.table(METRICS, "data/evaluate/metrics.parquet")
    if metrics is None or metrics.empty:
        return "For nothing that this project recorded."
    models = sorted(metrics["model"].unique())
    return f"{len(models)} models were scored on it, in `tables/metrics.parquet`: {', '.join(map(code, models))}."
