"""Answer the datasheet's questions as far as a version's tables, params and metrics can."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import pandas as pd

from caramel.release.publishing.card import ReleaseFacts
from caramel.release.publishing.contents import VersionContents
from caramel.release.publishing.escaping import escape_markdown, format_code
from caramel.release.publishing.licences import LICENCES
from caramel.release.publishing.metadata import About, Source
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.evaluation import METRICS
from caramel.schemas.llm import REPLIES
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES

DRAWN = {"world", "synthetic"}  # sources that show only what a program drew
NOBODY = "It shows drawn shapes on plain backgrounds and no people."


def get_param(params: Mapping[str, Any], key: str) -> Any:
    """Return a value of the params by its dotted key; None if there is none."""
    value: Any = params
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def is_fully_synthetic(facts: ReleaseFacts) -> bool:
    """Return whether all data comes from this program: the world's images, and models trained only on them."""
    params = facts.pinned.params
    taught = get_param(params, "train_generator.backend") == "pixart" or "synthetic" not in facts.sources
    written = {get_param(params, "negatives.backend"), get_param(params, "negatives.paraphrases")} <= {
        "world",
        None,
    }
    return (
        set(facts.sources) <= DRAWN and taught and written and get_param(params, "scenes.source") == "world"
    )


def build_answers(facts: ReleaseFacts, contents: VersionContents) -> dict[int, str]:
    """Return question number -> answer in Markdown for all questions that can be answered."""
    about, pinned = facts.about, facts.pinned
    rejects = contents.load_rejects()
    answers = {
        1: "To measure whether vision-language models use the composition of a scene and not only its objects. "
        "Each caption has a hard negative that differs by one change. "
        + escape_markdown(about.description or ""),
        5: "An image with a caption that is true of it and a hard negative that is false of it; if available, a "
        "second true caption and an image of which the hard negative is true. Subtypes are those of SugarCrepe.",
        6: _answer_counts(facts),
        8: _answer_columns(facts),
        9: "`caption` and `caption2` are true of `image`, `negative_caption` is not; it is true of `negative_image`.",
        10: _answer_missing(facts),
        11: "By ids: rows with the same `image_id` show the same image; an `instance_id` begins with the name of its pair.",
        12: "The splits in column `split`: "
        + "; ".join(f"{format_code(p.name)} {_format_counts(p.splits)}" for p in facts.parts)
        + ". An image belongs to exactly one split.",
        13: _answer_noise(facts, contents),
        14: f"It is self-contained: all images are in its files. Sources: {', '.join(map(format_code, facts.sources))}.",
        22: _answer_provenance(facts, contents),
        23: _answer_procedures(facts, contents),
        24: _answer_sampling(facts),
        35: _answer_filters(rejects),
        36: f"Yes. The pin names every intermediate table, including the rejected rows with their reasons: "
        f"{len(rejects):,} rows. `caramel get` fetches them from the project's remote.",
        37: f"caramel {version('caramel')}, git commit {format_code(pinned.commit)} of the project; the params are in `pin.json`.",
        39: _answer_uses(contents),
        41: "Training with hard negatives; measuring retrieval in both directions; studying what text-only models learn.",
        42: "A model trained on the test split learns its shortcuts. Question 13 lists the known noise.",
        43: "Do not use the test split for training, or for selecting models that are then reported on it.",
        57: "A pinned version is never overwritten; each release names its pin and its content hash.",
    }
    if facts.captions_alone:
        answers |= _answer_captions_alone(facts)
    answers |= _answer_from_metadata(about, facts)
    if is_fully_synthetic(facts) and about.people is not True:
        answers |= dict.fromkeys((15, 16, 17, 28), f"No. {NOBODY}")
        answers[25] = "Nobody: programs drew the images and wrote the captions."
        answers[26] = f"Programs made it; it was pinned on {pinned.created}. Its content refers to no time."
    return answers


def _answer_captions_alone(facts: ReleaseFacts) -> dict[int, str]:
    """Return the answers that differ where the data has no images."""
    return {
        5: "A caption with a hard negative that is meant to be false of the caption's image and, if available, a paraphrase. "
        "Subtypes are those of SugarCrepe.",
        9: "`caption` and `caption2` are taken to be true of the image, `negative_caption` to be false. Nobody looked at an "
        "image: where a program wrote a text, neither is certain.",
        11: "By names: rows with the same `image_name` describe the same image; an `instance_id` begins with the name of its pair.",
        14: "It is self-contained as texts. The images that the captions describe are not part of it. Sources: "
        f"{', '.join(map(format_code, facts.sources))}.",
        41: "Training with hard negatives where the images are available; studying what text-only models learn.",
    }


def _answer_from_metadata(about: About, facts: ReleaseFacts) -> dict[int, str]:
    """Return the answers that follow from the authors' metadata."""
    answers = {}
    if about.authors:
        answers[2] = "; ".join(
            escape_markdown(a.name + (f", {a.affiliation}" if a.affiliation else "")) for a in about.authors
        )
    if about.url or about.doi:
        links = [about.url or "", f"https://doi.org/{about.doi}" if about.doi else ""]
        answers[46] = "As a folder of files: " + ", ".join(escape_markdown(link) for link in links if link)
    if licence := LICENCES.get(about.licence or ""):
        answers[48] = f"{licence.name}: {licence.permits}."
    licences = {name: about.sources.get(name, Source()).licence or "" for name in facts.sources}
    if all(name in LICENCES for name in licences.values()):
        answers[49] = "; ".join(
            f"{format_code(s)}: {name} ({LICENCES[name].permits})" for s, name in licences.items()
        )
    if about.people is not None:
        answers[17] = "Yes." if about.people else "No."
    if about.contact:
        answers[53] = escape_markdown(about.contact)
    return answers


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{escape_markdown(name)} {count:,}" for name, count in counts.items())


def _answer_counts(facts: ReleaseFacts) -> str:
    parts = [
        f"{format_code(part.name)}: {sum(part.splits.values()):,} rows ({_format_counts(part.splits)})"
        for part in facts.parts
    ]
    images = [] if facts.captions_alone else [f"{len(facts.images):,} images"]
    return "; ".join([*parts, *images]) + ". `README.md` lists them by subtype."


def _answer_columns(facts: ReleaseFacts) -> str:
    lines = []
    for part in facts.parts:
        columns = "; ".join(
            f"{format_code(name)} ({escape_markdown(column.doc)})"
            for name, column in part.table.columns.items()
        )
        images = "" if facts.captions_alone else ", and the images themselves"
        lines.append(f"{format_code(part.name)}: {columns}{images}")
    return ". ".join(lines) + "."


def _answer_missing(facts: ReleaseFacts) -> str:
    if facts.instances is None:
        return "Nothing."
    lacking = {
        name: int(facts.instances[name].isna().sum())
        for name in ("caption2", "negative_image_id", "compounds")
        if not facts.captions_alone or name == "caption2"
    }
    missing_counts = ", ".join(
        f"{format_code(name)} of {count:,}" for name, count in lacking.items() if count
    )
    return (
        f"{missing_counts} instances: no candidate passed the checks, or the value is unknown."
        if missing_counts
        else "Nothing."
    )


def _answer_noise(facts: ReleaseFacts, contents: VersionContents) -> str:
    """Return the measured errors of judges and the accuracy of blind attackers, if available."""
    sentences, images = [], contents.load_json("data/filter_images/metrics.json")
    if drawn := images.get("candidates"):
        sentences.append(
            f"Of the first images of {drawn['n']:,} negative captions, {_format_percent(drawn['faithful'])} were faithful to their caption according to the judge "
            f"{format_code(str(get_param(facts.pinned.params, 'filter_images.judge')))}; the others were dropped"
        )
    if (second := images.get("second_judge")) and "precision" in second:
        sentences.append(
            f"A second judge, {format_code(str(second['name']))}, has a precision of {_format_percent(second['precision'])} and "
            f"a recall of {_format_percent(second['recall'])} against the first"
        )
    blind = contents.load_json("data/refine/blind.json")
    best = max((f["all"]["accuracy"], n) for n, f in blind.items()) if blind else None
    if best:
        sentences.append(
            f"Of the text-only scorers, {format_code(best[1])} separates refined captions from negatives best, with an accuracy of {best[0]:.1%} over all types"
        )
    if facts.instances is not None:
        again = int(facts.instances.duplicated(["image_id", "caption", "negative_caption"]).sum())
        sentences.append(f"{again:,} instances are duplicates of another in image and both captions")
    return ". ".join(sentences) + "." if sentences else "No noise was measured."


def _format_percent(share: float | None) -> str:
    """Return a share as a percentage; None becomes "none"."""
    return "none (there are none)" if share is None else f"{share:.1%}"


def _answer_provenance(facts: ReleaseFacts, contents: VersionContents) -> str:
    """Return the sources of images, captions, negatives and paraphrases."""
    images = facts.images["source"].value_counts()
    sentences = ["Images: " + _format_counts({str(name): int(count) for name, count in images.items()})]
    if facts.captions_alone:
        sentences = [f"Captions: {', '.join(map(format_code, facts.sources))}"]
    for what, table, path in (
        ("Hard negatives", NEGATIVES, "data/refine/negatives.parquet"),
        ("Paraphrases", PARAPHRASES, "data/refine/paraphrases.parquet"),
    ):
        rows = contents.load_table(table, path)
        if rows is not None and len(rows):
            counts = rows["generator"].value_counts()
            sentences.append(
                f"{what} by " + _format_counts({str(name): int(count) for name, count in counts.items()})
            )
    return ". ".join(sentences) + "."


def _answer_procedures(facts: ReleaseFacts, contents: VersionContents) -> str:
    """Return models with their identifying settings, prompts and judges."""
    params, sentences = facts.pinned.params, []
    replies = contents.load_table(REPLIES, "data/negatives/replies.parquet")
    if replies is not None and len(replies):
        for (model, prompt), rows in replies.groupby(["model", "prompt"]):
            sentences.append(
                f"Language model {format_code(str(model))} received the prompt {format_code(str(prompt))}: {len(rows):,} responses"
            )
    if generator := contents.load_json("data/generator/generator.json"):
        sentences.append(
            f"Images were generated by a diffusion pipeline with SHA-256 {format_code(str(generator.get('sha256')))}"
        )
    candidates = contents.load_table(CANDIDATES, "data/synthesize/candidates.parquet")
    if candidates is not None and len(candidates):
        suffix = get_param(params, "synthesize.prompt_suffix") or ""
        settings = ", ".join(format_code(str(name)) for name in candidates["generator"].unique())
        sentences.append(
            f"Their prompt is the caption{f' and {format_code(suffix)}' if suffix else ''}, with {settings}: {len(candidates):,} candidates"
        )
    choices = contents.load_table(CHOICES, "data/filter_images/choices.parquet")
    if choices is not None:
        counts = choices["chosen_by"].dropna().value_counts()
        sentences.append(
            "Images were selected by "
            + _format_counts({str(name): int(count) for name, count in counts.items()})
        )
    sections = {
        key: params.get(key) for key in ("scenes", "negatives", "refine", "filter_images") if key in params
    }
    sentences.append(
        f"All settings are in `pin.json`; those of these stages are {format_code(json.dumps(sections, sort_keys=True))}"
    )
    return ". ".join(sentences) + "."


def _answer_sampling(facts: ReleaseFacts) -> str:
    seeds = {
        key: get_param(facts.pinned.params, f"{key}.seed")
        for key in ("scenes", "negatives", "refine", "synthesize")
    }
    seeds_text = _format_counts({key: seed for key, seed in seeds.items() if isinstance(seed, int)})
    return f"By random draws with recorded seeds{f' ({seeds_text})' if seeds_text else ''}, and by the filters of question 35."


def _answer_filters(rejects: pd.DataFrame) -> str:
    """Return what each filter dropped."""
    if rejects.empty:
        return "Nothing was dropped."
    counts = rejects.groupby(["stage", "reason"], sort=True).size()
    lines = []
    for (stage, reason), count in counts.items():  # type: ignore[misc]
        lines.append(f"{format_code(stage)}: {escape_markdown(reason)}: {count:,}")  # type: ignore[has-type]
    return "Dropped rows by stage and reason. " + "; ".join(lines) + "."


def _answer_uses(contents: VersionContents) -> str:
    metrics = contents.load_table(METRICS, "data/evaluate/metrics.parquet")
    if metrics is None or metrics.empty:
        return "This project recorded no use."
    models = sorted(metrics["model"].unique())
    return f"{len(models)} models were scored on it, in `tables/metrics.parquet`: {', '.join(map(format_code, models))}."
